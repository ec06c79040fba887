/** Streams over real threads. */
import { type ActorRef, createRuntime, type Runtime } from "corral/runtime";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Phoenix, phoenix } from "../fixtures/actors/phoenix.actor.mjs";
import { silentLogger } from "../support/runtime-support.js";

let runtime: Runtime;
let ref: ActorRef<Phoenix>;
beforeAll(async () => {
  runtime = await createRuntime({ logger: silentLogger });
  ref = await runtime.spawn(phoenix, undefined, { name: "main", maxConcurrency: 8 });
});
afterAll(async () => {
  await runtime.shutdown({ deadlineMs: 2000 });
});
async function collect<T>(stream: AsyncIterable<T>): Promise<T[]> {
  const items: T[] = [];
  for await (const item of stream) items.push(item);
  return items;
}
const upTo = (n: number) => Array.from({ length: n }, (_, index) => index + 1);

describe("streams", () => {
  it.each([0, 1, 15, 16, 17, 1000])(
    "S1 give all items of async and sync generators: %i",
    async (n) => {
      expect(await collect(ref.stream.countTo(n))).toEqual(upTo(n));
      expect(await collect(ref.stream.syncCountTo(n))).toEqual(upTo(n));
      expect(await collect(ref.with({ window: 1 }).stream.countTo(n))).toEqual(upTo(n));
    },
  );

  it("S3 P3 an object that is yielded twice arrives as it was each time", async () => {
    expect(await collect(ref.stream.objects(3))).toEqual([{ n: 0 }, { n: 1 }, { n: 2 }]);
  });

  it("R8 items can be moved", async () => {
    const items = await collect(ref.stream.moved(3));
    expect(items.map((ids) => [...ids])).toEqual([
      [0, 0],
      [1, 1],
      [2, 2],
    ]);
  });

  it("S1 S4 the generator rests when the window is full", async () => {
    const stream = ref.with({ window: 4 }).stream.countTo(1000);
    expect(await stream.next()).toEqual({ value: 1, done: false });
    // Half a window was not acknowledged yet: four items and no more.
    expect(await ref.call.produced()).toBe(4);
    await stream.return?.();
  });

  it("S2 S5 leaving the loop runs the generator's finally before it goes on", async () => {
    const before = await ref.call.finals();
    for await (const item of ref.stream.countTo(1_000_000)) if (item === 20) break;
    expect(await ref.call.finals()).toBe(before + 1);
    const thrown = new Error("in the loop");
    const failing = async () => {
      for await (const _item of ref.stream.countTo(1_000_000)) throw thrown;
    };
    await expect(failing()).rejects.toBe(thrown);
    expect(await ref.call.finals()).toBe(before + 2);
    expect(ref.pendingCalls).toBe(0);
  });

  it("S2 R5 a generator that waits hears of the end by ctx.signal", async () => {
    const before = await ref.call.finals();
    for await (const item of ref.stream.untilSignal()) {
      expect(item).toBe("first");
      break;
    }
    expect(await ref.call.finals()).toBe(before + 1);
    const controller = new AbortController();
    const stream = ref.with({ signal: controller.signal }).stream.untilSignal();
    await stream.next();
    controller.abort();
    await expect(stream.next()).rejects.toMatchObject({ code: "CALL_CANCELLED" });
    expect(await stream.next()).toEqual({ value: undefined, done: true });
  });

  it("R2 an error comes after the items before it, once", async () => {
    const stream = ref.stream.failAfter(20);
    const items: number[] = [];
    const reading = async () => {
      for await (const item of stream) items.push(item);
    };
    await expect(reading()).rejects.toMatchObject({ name: "RangeError", code: "DRY" });
    expect(items).toEqual(upTo(20));
    expect(await stream.next()).toEqual({ value: undefined, done: true });
  });

  it("R7 an item that cannot be cloned ends the stream, and its generator", async () => {
    const before = await ref.call.finals();
    const stream = ref.stream.badItem();
    expect(await stream.next()).toEqual({ value: 1, done: false });
    await expect(stream.next()).rejects.toMatchObject({
      code: "NOT_CLONEABLE",
      message: expect.stringContaining("stream item a function"),
    });
    expect(await ref.call.finals()).toBe(before + 1);
  });

  it("names a method that streams nothing", async () => {
    const streams = ref.stream as unknown as { notAStream(): AsyncIterable<number> };
    await expect(collect(streams.notAStream())).rejects.toThrow(
      /notAStream: a stream needs .*number/,
    );
  });

  it("S6 R1 the actor's death errors the loop after the items that had come", async () => {
    const doomed = await runtime.spawn(phoenix, undefined);
    const items: number[] = [];
    const reading = async () => {
      for await (const item of doomed.stream.crashAfter(3)) items.push(item);
    };
    await expect(reading()).rejects.toMatchObject({ code: "ACTOR_DIED", report: { exitCode: 4 } });
    expect(items).toEqual([1, 2, 3]);
  });

  it("S5 leaving a stream whose actor dies meanwhile does not hang", async () => {
    const doomed = await runtime.spawn(phoenix, undefined, { maxConcurrency: 2 });
    const stream = doomed.stream.countTo(1e9);
    await stream.next();
    const left = stream.return?.();
    void doomed.kill();
    expect(await left).toEqual({ value: undefined, done: true });
  });

  it("are made of nothing until they are read, and leave nothing behind", async () => {
    const unread = ref.stream.countTo(5);
    expect(ref.pendingCalls).toBe(0);
    expect(await unread.return?.()).toEqual({ value: undefined, done: true });
    expect(await unread.next()).toEqual({ value: undefined, done: true });
    await collect(ref.stream.countTo(10));
    expect(ref.pendingCalls).toBe(0);
  });
});
