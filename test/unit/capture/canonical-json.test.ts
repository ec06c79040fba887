import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { canonicalJson } from "../../../src/capture/canonical-json.js";

/** The same value with the keys of every object in another order. */
function reordered(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(reordered);
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).map(([key, member]) => [key, reordered(member)]);
  return Object.fromEntries(entries.toReversed());
}

describe("canonicalJson", () => {
  it("is JSON of the same value, and one text whatever the order of keys", () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 6 }), (value) => {
        const text = canonicalJson(value);
        expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify(value)));
        expect(canonicalJson(reordered(value))).toBe(text);
      }),
    );
  });

  it("sorts keys by code unit and writes no blanks", () => {
    expect(
      canonicalJson({ b: [], a: { "\ud83d\ude00": {}, "\ufb01": [null, { z: 1, y: "" }] } }),
    ).toBe('{"a":{"\ud83d\ude00":{},"\ufb01":[null,{"y":"","z":1}]},"b":[]}');
    expect(canonicalJson({ 10: 1, 9: 2, "": 3 })).toBe('{"":3,"10":1,"9":2}');
  });

  it("leaves undefined members out, and writes null for them in arrays", () => {
    expect(canonicalJson({ a: undefined, b: [undefined, 1] })).toBe('{"b":[null,1]}');
    expect(canonicalJson(undefined)).toBe("null");
  });

  it("takes any depth", () => {
    let deep: unknown = 1;
    for (let level = 0; level < 100_000; level++) deep = level % 2 === 0 ? [deep] : { a: deep };
    expect(canonicalJson(deep)).toHaveLength(1 + 50_000 * 2 + 50_000 * 6);
  });
});
