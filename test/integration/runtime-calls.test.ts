/** Values, errors, order and handles over real threads. */
import { type ActorRef, createRuntime, type Runtime } from "corral/runtime";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { holder, type Victim, victim } from "../fixtures/actors/victim.actor.mjs";
import { type Worker, worker } from "../fixtures/actors/worker.actor.mjs";
import { recordingLogger } from "../support/runtime-support.js";

const { logger, recordsOf } = recordingLogger();
let runtime: Runtime;
let ref: ActorRef<Worker>;
beforeAll(async () => {
  runtime = await createRuntime({ logger });
  ref = await runtime.spawn(worker, undefined, { name: "worker", maxConcurrency: 4 });
});
afterAll(async () => {
  await runtime.shutdown({ deadlineMs: 2000 });
});

describe("R2 errors", () => {
  it("R2 keep class name, code, cause chain, own fields and the remote stack", async () => {
    const error = (await ref.call.fail().catch((thrown: unknown) => thrown)) as Error;
    expect(error).toBeInstanceOf(Error);
    expect(error).toMatchObject({ name: "QuotaError", code: "QUOTA", limit: 5 });
    expect(error).toMatchObject({ details: { at: [1, 2, 3] } });
    expect(error.message).toBe("over quota");
    expect(error.stack).toContain("worker.actor.mjs");
    expect(error.cause).toBeInstanceOf(RangeError);
    expect((error.cause as Error).cause).toEqual({ status: 3 });
  });

  it("R2 keep AggregateError.errors", async () => {
    const error = (await ref.call.failTogether().catch((e: unknown) => e)) as AggregateError;
    expect(error).toBeInstanceOf(AggregateError);
    expect(error.errors[0]).toMatchObject({ name: "QuotaError", code: "QUOTA" });
    expect(error.errors[1]).toBe("text");
  });

  it("R2 of no class arrive as the value that was thrown", async () => {
    await expect(ref.call.failWith({ status: 404 })).rejects.toEqual({ status: 404 });
    await expect(ref.call.failWith(undefined)).rejects.toBeUndefined();
  });

  it("R2 keep their fields also as arguments and results", async () => {
    const sent = Object.assign(new TypeError("sent"), { code: "SENT" });
    // A mapped type cannot carry a method's own type parameter.
    const back = (await ref.call.echo({ list: [sent] })) as { list: Error[] };
    expect(back.list[0]).toBeInstanceOf(TypeError);
    expect(back.list[0]).toMatchObject({ message: "sent", code: "SENT" });
    expect((await ref.call.errorAsResult()).seen[0]).toMatchObject({ code: "QUOTA" });
  });

  it("R2 name a method that does not exist", async () => {
    const call = ref.call as unknown as Record<string, () => Promise<unknown>>;
    for (const method of ["nope", "hasOwnProperty", "constructor", "most"])
      await expect(call[method]?.()).rejects.toMatchObject({
        code: "METHOD_NOT_FOUND",
        message: expect.stringMatching(new RegExp(`actor "worker".*"${method}"`)),
      });
  });
});

describe("R7 what cannot be cloned", () => {
  it.each([
    ["a function", () => 1, /function/],
    ["a symbol", Symbol("s"), /symbol/],
    ["an AbortSignal", { signal: AbortSignal.timeout(1e6) }, /AbortSignal at \[0\]\.signal/],
    ["a URL", [new URL("http://localhost/")], /URL at \[0\]\[0\]/],
    ["Headers", { deep: { headers: new Headers() } }, /Headers at \[0\]\.deep\.headers/],
    ["a class instance", new (class Mine {})(), /Mine/],
    ["a promise", Promise.resolve(1), /Promise/],
    ["a function in a Map", new Map([["f", () => 1]]), /function/],
    ["a detached buffer", detached(), /detached/],
  ])("R7 rejects only its own call: %s", async (_case, value, message) => {
    const before = ref.call.echo(1);
    const refused = ref.call.echo(value as unknown);
    const after = ref.call.echo(2);
    await expect(refused).rejects.toMatchObject({ code: "NOT_CLONEABLE", method: "echo" });
    await expect(refused).rejects.toThrow(message);
    await expect(refused).rejects.toThrow('actor "worker"');
    expect(await Promise.all([before, after])).toEqual([1, 2]);
  });

  it.each(["function", "url", "symbol", "instance"] as const)(
    "R7 rejects a result that holds: %s",
    async (what) => {
      await expect(ref.call.give(what)).rejects.toMatchObject({
        code: "NOT_CLONEABLE",
        method: "give",
        message: expect.stringContaining("result"),
      });
    },
  );

  it("R7 passes what structured clone carries well", async () => {
    const value = {
      map: new Map([[1, new Set(["a"])]]),
      date: new Date(5),
      big: 10n,
      pattern: /x/g,
      ids: Int32Array.of(1, 2),
      buffer: new ArrayBuffer(3),
      nothing: undefined,
      zero: -0,
    };
    expect(await ref.call.echo(value)).toEqual(value);
  });
});

describe("R8 buffers", () => {
  it("R8 sends a small view without the buffer it lies in", async () => {
    const view = new Int32Array(1_000_000).subarray(10, 20);
    expect(await ref.call.byteLengthOf(view)).toEqual({ view: 40, buffer: 40 });
    expect(await ref.call.byteLengthOf(Buffer.from("hello"))).toEqual({ view: 5, buffer: 5 });
    expect(((await ref.call.echo(view)) as Int32Array).buffer.byteLength).toBe(40);
  });

  it("R8 keeps shared memory shared, also below a small view", async () => {
    const shared = new SharedArrayBuffer(64);
    const ids = new Int32Array(shared, 0, 1);
    expect(await ref.call.addTo(shared, 7)).toBe(0);
    expect(ids[0]).toBe(7);
    const back = (await ref.call.echo({ ids })) as { ids: Int32Array };
    ids[0] = 9;
    expect(back.ids[0]).toBe(9);
  });
});

describe("R3 order and limits", () => {
  it("R3 starts a caller's calls in order and never more than maxConcurrency", async () => {
    const single = await runtime.spawn(victim, undefined);
    const sent = Array.from({ length: 200 }, (_, index) => index);
    await Promise.all(sent.map((index) => single.call.ping(index)));
    expect(await single.call.seen()).toEqual(sent);
  });

  it("R3 keeps the limit over several callers in several threads", async () => {
    const target = await runtime.spawn(worker, undefined, { maxConcurrency: 3 });
    const held = target as unknown as ActorRef<Victim>;
    const callers = await Promise.all(
      [1, 2, 3].map(() => runtime.spawn(holder, { nested: { refs: [held] } })),
    );
    await Promise.all([
      ...callers.map((caller) => caller.call.callMany(50, "run" as never)),
      ...Array.from({ length: 50 }, () => target.call.run()),
    ]);
    expect(await target.call.run()).toBe(3);
  });

  it("R3 a waiting call keeps the arguments it was made with", async () => {
    const single = await runtime.spawn(victim, undefined);
    const first = single.call.ping(0);
    const argument = { text: "as it was" };
    const waiting = single.call.ping(argument);
    argument.text = "changed";
    await first;
    expect(await waiting).toEqual({ text: "as it was" });
  });
});

describe("handles", () => {
  it("pass in options, arguments and results, and keep working from inside an actor", async () => {
    const target = await runtime.spawn(victim, undefined, { name: "target", maxConcurrency: 16 });
    const first = await runtime.spawn(holder, { nested: { refs: [target] } });
    expect(await first.call.callMany(1000, "ping")).toBe(1000);
    const { ref: back } = await first.call.give();
    expect([back.id, back.name]).toEqual([target.id, "target"]);
    expect(await back.call.ping("again")).toBe("again");
    const second = await runtime.spawn(holder, undefined);
    await second.call.hold(back);
    expect(await second.call.call("ping", 3)).toEqual({ value: 3 });
  });

  it("D1 R3 of one actor share one order in a thread", async () => {
    const target = await runtime.spawn(victim, undefined);
    const giver = await runtime.spawn(holder, { nested: { refs: [target] } });
    const { ref: second } = await giver.call.give();
    const sent = Array.from({ length: 40 }, (_, index) => index);
    await Promise.all(sent.map((index) => (index % 3 === 0 ? second : target).call.ping(index)));
    expect(await target.call.seen()).toEqual(sent);
  });

  it("stop and kill from another actor resolve with the report there", async () => {
    for (const [method, cause] of [
      ["stopOther", "stopped"],
      ["killOther", "killed"],
    ] as const) {
      const target = await runtime.spawn(victim, undefined);
      const other = await runtime.spawn(holder, { nested: { refs: [target] } });
      expect(await other.call[method]()).toMatchObject({ cause });
      await expect(target.call.ping(1)).rejects.toMatchObject({ code: "ACTOR_DIED" });
    }
  });

  it("of another runtime are refused", async () => {
    await using other = await createRuntime({ logger });
    const foreign = await other.spawn(victim, undefined);
    await expect(ref.call.echo({ foreign })).rejects.toMatchObject({ code: "NOT_CLONEABLE" });
  });

  it("are safe to await, to serialise and to look at", async () => {
    expect(await ref).toBe(ref);
    expect(await ref.call).toBe(ref.call);
    expect(JSON.parse(JSON.stringify({ ref }))).toEqual({ ref: { id: ref.id, name: "worker" } });
  });
});

it("an actor knows its id and name, and its log reaches the runtime's logger", async () => {
  expect(await ref.call.me()).toEqual({ actorId: ref.id, name: "worker" });
  await ref.call.log("from the thread");
  const own = await recordsOf("from the thread", 2);
  expect(own.map((record) => record.level)).toEqual(["info", "error"]);
  expect(own[0]?.fields).toMatchObject({
    actorId: ref.id,
    fields: expect.stringContaining("n: 1"),
  });
  expect(own[1]?.fields).toMatchObject({ err: { name: "QuotaError", code: "QUOTA" } });
});

function detached(): ArrayBuffer {
  const buffer = new ArrayBuffer(8);
  structuredClone(buffer, { transfer: [buffer] });
  return buffer;
}
