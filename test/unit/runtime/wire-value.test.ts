import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { pack, unpack } from "../../../src/runtime/wire-value.js";

class Handle {
  readonly id: number;
  constructor(id: number) {
    this.id = id;
  }
}
const special = (value: object): unknown =>
  value instanceof Handle ? { id: value.id } : undefined;
const decode = (encoded: unknown): unknown => new Handle((encoded as { id: number }).id);
const cross = (value: unknown): unknown => unpack(structuredClone(pack(value, special)), decode);

describe("pack", () => {
  it("W1 names the path of what cannot be sent", () => {
    class Mine {}
    class MyMap extends Map {}
    const cases: [unknown, RegExp][] = [
      [() => 1, /a function at the top/],
      [{ a: [0, { run() {} }] }, /function \(run\) at a\[1\]\.run/],
      [[Symbol("s")], /symbol \(Symbol\(s\)\) at \[0\]/],
      [{ signal: new AbortController().signal }, /AbortSignal at signal/],
      [{ at: new URL("http://localhost") }, /URL at at/],
      [new Headers(), /Headers at the top/],
      [new Mine(), /Mine/],
      [new MyMap(), /MyMap/],
      [new WeakMap(), /WeakMap/],
      [Promise.resolve(), /Promise/],
      [new Map([[1, new Mine()]]), /Mine/],
      [new Set([() => 1]), /function/],
      [new Proxy({}, {}), /Proxy/],
      [new Map([[1, new Handle(1)]]), /Handle inside a Map or a Set/],
    ];
    for (const [value, message] of cases) expect(() => pack(value, special)).toThrow(message);
  });

  it("does not copy what needs no change", () => {
    const value = { a: [1, "x", new Map([[1, new Date(0)]])], buffer: new ArrayBuffer(8) };
    expect(pack(value, special).value).toBe(value);
  });

  it("W2 sends small views alone, large ones and shared ones as they are", () => {
    const parent = new Float64Array(100);
    parent[3] = 7;
    const packed = pack(
      { deep: [parent.subarray(3, 5)], map: new Map([["v", parent.subarray(3, 4)]]) },
      special,
    );
    const { deep, map } = packed.value as { deep: [Float64Array]; map: Map<string, Float64Array> };
    expect([deep[0].byteLength, deep[0].buffer.byteLength, deep[0][0]]).toEqual([16, 16, 7]);
    expect(map.get("v")?.buffer.byteLength).toBe(8);
    const large = parent.subarray(10);
    expect(pack(large, special).value).toBe(large);
    const shared = new Uint8Array(new SharedArrayBuffer(100), 0, 1);
    expect(pack(shared, special).value).toBe(shared);
    const bytes = pack(Buffer.from("hello"), special).value as Uint8Array;
    expect([bytes.constructor, bytes.buffer.byteLength]).toEqual([Uint8Array, 5]);
    const view = pack(new DataView(new ArrayBuffer(64), 8, 8), special).value as DataView;
    expect(view.buffer.byteLength).toBe(8);
  });

  it("W3 does not visit the contents of buffers", () => {
    const large = new Uint8Array(new SharedArrayBuffer(512 * 2 ** 20));
    const startedAt = performance.now();
    pack([large], special);
    expect(performance.now() - startedAt).toBeLessThan(50);
  });

  it("W4 brings specials back at their paths, anywhere in plain objects and arrays", () => {
    const { value } = fc.letrec((tie) => ({
      value: fc.oneof(
        { maxDepth: 4 },
        fc.integer(),
        fc.string(),
        fc.nat().map((id) => new Handle(id)),
        fc.array(tie("value"), { maxLength: 4 }),
        fc.dictionary(
          fc.string().filter((key) => key !== "__proto__"),
          tie("value"),
          {
            maxKeys: 4,
            noNullPrototype: true,
          },
        ),
      ),
    }));
    fc.assert(
      fc.property(value, (original) => {
        expect(cross(original)).toEqual(original);
      }),
    );
  });

  it("W4 keeps shared and cyclic references", () => {
    const shared = { handle: new Handle(1) };
    const value: Record<string, unknown> = { a: shared, b: shared };
    value["self"] = value;
    const back = cross(value) as { a: typeof shared; b: typeof shared; self: unknown };
    expect(back.a).toBe(back.b);
    expect(back.a.handle).toEqual(new Handle(1));
    expect(back.self).toBe(back);
  });
});
