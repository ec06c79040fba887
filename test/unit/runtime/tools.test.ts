/** What stands on handles: groups, pools, wait, events, the trace file, moved and shared buffers. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ActorGroup } from "../../../src/runtime/actor-group.js";
import { ActorPool } from "../../../src/runtime/actor-pool.js";
import { move, putShared } from "../../../src/runtime/buffers.js";
import { RuntimeEvents } from "../../../src/runtime/events.js";
import { ActorHandle, type ActorRef } from "../../../src/runtime/handle.js";
import { sourceOf } from "../../../src/runtime/load-module.js";
import type { ActorRecord } from "../../../src/runtime/registry.js";
import { TraceFile } from "../../../src/runtime/trace-file.js";
import { wait } from "../../../src/runtime/wait.js";
import { packParcel } from "../../../src/runtime/wire-value.js";
import { Held, Rig, type RigThread, report, turns } from "../../support/runtime-rig.js";
import { silentLogger } from "../../support/runtime-support.js";

const threads: RigThread[] = [];
let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "tools-"));
});
afterEach(() => {
  for (const thread of threads.splice(0)) thread.end();
  rmSync(dir, { recursive: true });
});

interface Member {
  run(key: unknown): Promise<unknown>;
  who(): number;
}
function members(count: number) {
  return Array.from({ length: count }, (_, index) => {
    const held = new Held();
    const rig = new Rig({ maxConcurrency: 10 });
    const caller = rig.caller();
    const thread = rig.thread({ run: held.run, who: () => index });
    threads.push(thread);
    thread.connect(caller);
    const ref: ActorRef<Member> = new ActorHandle<Member>(caller.connection, {
      stopActor: () => caller.connection.died({ ...report, cause: "stopped" }),
      killActor: () => caller.connection.died({ ...report, cause: "killed" }),
    });
    return { ref, held, connection: caller.connection };
  });
}

describe("ActorGroup", () => {
  it("goes round, and Y1 passes over the dead", async () => {
    const all = members(3);
    const group = new ActorGroup(all.map(({ ref }) => ref));
    const ask = (count: number) =>
      Promise.all(Array.from({ length: count }, () => group.call.who()));
    expect(await ask(5)).toEqual([0, 1, 2, 0, 1]);
    all[1]?.connection.died(report);
    expect(new Set(await ask(6))).toEqual(new Set([0, 2]));
    for (const { connection } of all) connection.died(report);
    await expect(group.call.who()).rejects.toMatchObject({ code: "ACTOR_DIED" });
  });

  it("least-busy asks the member with the fewest pending calls", async () => {
    const all = members(2);
    const group = new ActorGroup(
      all.map(({ ref }) => ref),
      "least-busy",
    );
    const calls = [1, 2, 3].map((key) => group.call.run(key));
    await Promise.all([all[0]?.held.startedCount(2), all[1]?.held.startedCount(1)]);
    expect(all.map(({ held }) => held.started)).toEqual([[1, 3], [2]]);
    all[0]?.held.end(0);
    all[0]?.held.end(1);
    await Promise.all([calls[0], calls[2]]);
    expect(await group.call.who()).toBe(0);
    all[1]?.held.end(0);
    await calls[1];
  });

  it("Y2 a key stays with its member, and only the keys of a dead one move", () => {
    const all = members(4);
    const group = new ActorGroup(all.map(({ ref }) => ref));
    const keys = Array.from({ length: 200 }, (_, index) => `rollout-${index}`);
    const homes = () => keys.map((key) => all.findIndex(({ ref }) => ref === group.forKey(key)));
    const before = homes();
    expect(new Set(before).size).toBe(4);
    expect(homes()).toEqual(before);
    all[2]?.connection.died(report);
    homes().forEach((home, index) => {
      if (before[index] === 2) expect(home).not.toBe(2);
      else expect(home).toBe(before[index]);
    });
  });

  it("stops all, and refuses to be made of nothing", async () => {
    const group = new ActorGroup(members(2).map(({ ref }) => ref));
    expect((await group.stop()).map(({ cause }) => cause)).toEqual(["stopped", "stopped"]);
    expect(() => new ActorGroup([])).toThrow(/members is empty/);
    expect(() => new ActorGroup(group.members, "random" as never)).toThrow(/route is "random"/);
  });
});

describe("ActorPool", () => {
  const run = (ref: ActorRef<Member>, key: number) => ref.call.run(key);

  it("Q1 gives each actor one piece at a time, in the order of submission", async () => {
    const [one, two] = members(2) as [ReturnType<typeof members>[0], ReturnType<typeof members>[0]];
    const pool = new ActorPool([one.ref, two.ref]);
    for (const key of [0, 1, 2, 3]) pool.submit(run, key);
    expect([pool.hasFree(), pool.hasNext()]).toEqual([false, true]);
    await Promise.all([one.held.startedCount(1), two.held.startedCount(1)]);
    two.held.end(0);
    await two.held.startedCount(2);
    expect([one.held.started, two.held.started]).toEqual([[0], [1, 2]]);
    two.held.end(1);
    await two.held.startedCount(3);
    one.held.end(0);
    two.held.end(2);
    expect([await pool.getNext(), await pool.getNext()]).toEqual([0, 1]);
    expect([await pool.getNext(), await pool.getNext()]).toEqual([2, 3]);
    expect([pool.hasNext(), pool.hasFree()]).toEqual([false, true]);
    await expect(pool.getNext()).rejects.toThrow(/no result to take/);
  });

  it("Q2 getNextUnordered and mapUnordered give results as they come", async () => {
    const [one, two] = members(2) as [ReturnType<typeof members>[0], ReturnType<typeof members>[0]];
    const pool = new ActorPool([one.ref, two.ref]);
    for (const key of [0, 1]) pool.submit(run, key);
    await Promise.all([one.held.startedCount(1), two.held.startedCount(1)]);
    const next = pool.getNextUnordered();
    two.held.end(0);
    expect(await next).toBe(1);
    one.held.end(0);
    expect(await pool.getNextUnordered()).toBe(0);
    await expect(pool.getNextUnordered()).rejects.toThrow(RangeError);

    const results = pool.mapUnordered(run, [5, 6]);
    const first = results.next();
    await Promise.all([one.held.startedCount(2), two.held.startedCount(2)]);
    const busyWithFive = one.held.started[1] === 5 ? one : two;
    (busyWithFive === one ? two : one).held.end(1);
    expect((await first).value).toBe(6);
    busyWithFive.held.end(1);
    expect((await results.next()).value).toBe(5);
    expect((await results.next()).done).toBe(true);
  });

  it("Q3 a piece that fails rejects where it is taken, and its actor works on", async () => {
    const [one] = members(1) as [ReturnType<typeof members>[0]];
    const pool = new ActorPool([one.ref]);
    const work = (ref: ActorRef<Member>, key: number): Promise<number> => {
      if (key === 1) throw new Error("bad piece");
      return ref.call.who();
    };
    const taken: unknown[] = [];
    const reading = async () => {
      for await (const result of pool.map(work, [0, 1, 2])) taken.push(result);
    };
    await expect(reading()).rejects.toThrow("bad piece");
    expect(taken).toEqual([0]);
    await turns();
    expect(pool.popIdle()).toBe(one.ref);
    expect(pool.popIdle()).toBeUndefined();
    pool.submit(work, 3);
    pool.push(one.ref);
    expect(await pool.getNext()).toBe(0);
  });
});

describe("wait", () => {
  const never = new Promise<number>(() => {});
  it("gives what has ended, well or badly, in the given order, and leaves the rest", async () => {
    const failed = Promise.reject(new Error("x"));
    const done = Promise.resolve(1);
    expect(await wait([never, failed, done], { num: 2 })).toEqual([[failed, done], [never]]);
    expect(await wait([never, done])).toEqual([[done], [never]]);
  });
  it("ends at its time", async () => {
    expect(await wait([never], { timeoutMs: 5 })).toEqual([[], [never]]);
    const done = Promise.resolve(1);
    expect(await wait([never, done], { num: 2, timeoutMs: 0 })).toEqual([[done], [never]]);
  });
  it("names a num that cannot be", async () => {
    await expect(wait([never], { num: 2 })).rejects.toThrow(/num is 2; allowed is 1 to 1/);
    await expect(wait([], {})).rejects.toThrow(/num is 1; allowed is 1 to 0/);
  });
});

describe("events and trace", () => {
  const record = (id: string): ActorRecord =>
    ({
      actor: { id, name: undefined, namespace: "ns" },
      life: undefined,
    }) as unknown as ActorRecord;

  it("V1 a slow subscriber loses the oldest events and is told how many", async () => {
    const events = new RuntimeEvents(undefined);
    const slow = events.subscribe();
    for (let index = 0; index < 10_005; index++) events.actor(record(`a-${index}`), "ALIVE");
    expect((await slow.next()).value).toMatchObject({ actorId: "a-5", dropped: 0 });
    await events.close();
    let last: unknown;
    for await (const event of slow) last = event;
    expect(last).toMatchObject({ actorId: "a-10004", dropped: 5 });
    expect(await events.subscribe().next()).toEqual({ value: undefined, done: true });
  });

  it("V1 gives events to whoever waits, and nothing after return", async () => {
    const events = new RuntimeEvents(undefined);
    const subscriber = events.subscribe();
    const next = subscriber.next();
    events.actor(record("a-1"), "DEAD", report);
    expect((await next).value).toMatchObject({ state: "DEAD", namespace: "ns", report });
    await subscriber.return?.();
    events.actor(record("a-1"), "ALIVE");
    expect(await subscriber.next()).toEqual({ value: undefined, done: true });
  });

  it("X1 the trace is an array of events that a viewer reads, and valid JSON at the end", async () => {
    const path = join(dir, "trace.json");
    const trace = await TraceFile.create(path, silentLogger);
    const actor = { id: "a-1", name: "main" };
    trace.spans(actor, [["run", 1000, 1002.5, false]]);
    trace.state({ atMs: 1003, actorId: "a-1", name: "main", state: "DEAD" });
    await trace.close();
    const events = JSON.parse(readFileSync(path, "utf8")) as Record<string, unknown>[];
    expect(events.map(({ name, ph }) => [name, ph])).toEqual([
      ["process_name", "M"],
      ["thread_name", "M"],
      ["run", "X"],
      ["DEAD", "i"],
    ]);
    expect(events[2]).toMatchObject({ ts: 1_000_000, dur: 2500, tid: 1, args: { failed: false } });
  });
});

describe("buffers", () => {
  const parcel = (value: unknown) => packParcel(value, () => undefined);

  it("W5 R8 moves what is marked, once, and never the same buffer twice in a message", () => {
    const ids = Int32Array.of(1, 2);
    const other = Int32Array.of(3);
    move(ids);
    expect(parcel([ids, ids.subarray(0, 1), other]).transfer).toEqual([ids.buffer]);
    expect(parcel(ids).transfer).toEqual([]);
  });

  it("W5 R8 copies what cannot be moved: a pooled Buffer, and a detached buffer is left for the clone to refuse", () => {
    const pooled = move(Buffer.from("hello"));
    expect(parcel(pooled).transfer).toEqual([]);
    expect((parcel(pooled).packed.value as Uint8Array).buffer.byteLength).toBe(5);
    const gone = new ArrayBuffer(8);
    structuredClone(gone, { transfer: [gone] });
    expect(parcel({ gone: move(gone) }).transfer).toEqual([]);
  });

  it("R8 put copies once, into shared memory, and keeps the class", () => {
    const logProbs = Float64Array.of(-1, -2, -3).subarray(1);
    const shared = putShared(logProbs);
    expect(shared).toEqual(Float64Array.of(-2, -3));
    expect(shared.buffer).toBeInstanceOf(SharedArrayBuffer);
    expect(parcel(shared).packed.value).toBe(shared);
  });
});

it("sourceOf falls back to the TypeScript beside a JavaScript file that is not there", () => {
  const url = (name: string) => pathToFileURL(join(dir, name)).href;
  for (const name of ["a.actor.ts", "b.mts", "both.js", "both.ts"])
    writeFileSync(join(dir, name), "");
  expect(sourceOf(url("a.actor.js"))).toBe(url("a.actor.ts"));
  expect(sourceOf(url("b.mjs"))).toBe(url("b.mts"));
  expect(sourceOf(url("both.js"))).toBe(url("both.js"));
  expect(sourceOf(url("neither.js"))).toBe(url("neither.js"));
  expect(sourceOf(url("a.actor.ts"))).toBe(url("a.actor.ts"));
  expect(sourceOf("node:fs")).toBe("node:fs");
});
