/** Names, the state API, events, the timeline, groups and shared arrays over real threads. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ActorPool, type ActorRef, createRuntime, move, type Runtime, wait } from "corral/runtime";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { faulty } from "../fixtures/actors/faults.actor.mjs";
import { type Phoenix, phoenix } from "../fixtures/actors/phoenix.actor.mjs";
import { worker } from "../fixtures/actors/worker.actor.mjs";
import { silentLogger } from "../support/runtime-support.js";

let runtime: Runtime;
let dir: string;
beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), "state-"));
  runtime = await createRuntime({ logger: silentLogger, traceFile: join(dir, "trace.json") });
});
afterEach(async () => {
  await runtime.shutdown({ deadlineMs: 2000 });
  rmSync(dir, { recursive: true });
});

describe("R10 names", () => {
  it("R10 are unique per namespace, and found by get", async () => {
    const one = await runtime.spawn(phoenix, undefined, { name: "main" });
    const two = await runtime.spawn(phoenix, undefined, { name: "main", namespace: "other" });
    await expect(
      runtime.spawn(phoenix, undefined, { name: "main", namespace: "other" }),
    ).rejects.toMatchObject({ code: "ACTOR_NAME_TAKEN", namespace: "other" });
    expect(runtime.get<Phoenix>("main")?.id).toBe(one.id);
    expect(runtime.get<Phoenix>("main", { namespace: "other" })?.id).toBe(two.id);
    expect(await runtime.get<Phoenix>("main")?.call.echo(1)).toBe(1);
    expect([runtime.get("nobody"), runtime.get("main", { namespace: "no" })]).toEqual([
      undefined,
      undefined,
    ]);
    await one.kill();
    expect(runtime.get("main")).toBeUndefined();
  });

  it("R10 getIfExists: concurrent creators get one actor", async () => {
    const log = join(dir, "creates");
    const options = { name: "one", getIfExists: true };
    const refs = await Promise.all(
      Array.from({ length: 10 }, () => runtime.spawn(phoenix, { log }, options)),
    );
    expect(new Set(refs.map(({ id }) => id)).size).toBe(1);
    expect(readFileSync(log, "utf8")).toBe("0\n");
    await refs[0]?.kill();
    const next = await runtime.spawn(phoenix, { log }, options);
    expect(next.id).not.toBe(refs[0]?.id);
  });

  it("R10 getIfExists: when the first creator fails, the next one creates", async () => {
    const options = { name: "one", getIfExists: true };
    const outcomes = await Promise.allSettled([
      runtime.spawn(phoenix, { failFrom: 0 }, options),
      runtime.spawn(phoenix, undefined, options),
      runtime.spawn(phoenix, undefined, options),
    ]);
    expect(outcomes.map(({ status }) => status)).toEqual(["rejected", "fulfilled", "fulfilled"]);
    const [, two, three] = outcomes as [unknown, ...PromiseFulfilledResult<ActorRef<Phoenix>>[]];
    expect(two?.value.id).toBe(three?.value.id);
  });

  it("R10 getIfExists refuses an actor of another kind", async () => {
    await runtime.spawn(phoenix, undefined, { name: "taken" });
    await expect(
      runtime.spawn(worker, undefined, { name: "taken", getIfExists: true }),
    ).rejects.toMatchObject({
      code: "ACTOR_NAME_TAKEN",
      message: expect.stringContaining("another kind of actor"),
    });
  });
});

describe("R10 state, events and timeline", () => {
  it("R10 tell of every state an actor goes through", async () => {
    const events = runtime.events();
    const ref = await runtime.spawn(phoenix, undefined, {
      name: "main",
      maxRestarts: 1,
      backoffMs: [1, 1],
    });
    const open = ref.call.wait().catch(() => {});
    expect(runtime.list()).toMatchObject([
      {
        id: ref.id,
        name: "main",
        namespace: "default",
        definition: "phoenix",
        state: "ALIVE",
        restarts: 0,
        pendingCalls: 1,
      },
    ]);
    void ref.kill({ restart: true });
    await open;
    await ref.call.echo(1);
    await ref.stop();
    await runtime.shutdown();
    const seen: unknown[] = [];
    for await (const { state, restarts, report } of events)
      seen.push([state, restarts, report?.cause]);
    expect(seen).toEqual([
      ["PENDING_CREATION", 0, undefined],
      ["ALIVE", 0, undefined],
      ["RESTARTING", 0, "killed"],
      ["ALIVE", 1, undefined],
      ["DEAD", 1, "stopped"],
    ]);
  });

  it("R10 X1 the timeline holds each call with its times, as valid JSON", async () => {
    const ref = await runtime.spawn(phoenix, undefined, { name: "main" });
    const before = Date.now();
    await ref.call.spinMs(30);
    await ref.call.crashUntil(0);
    for await (const _item of ref.stream.countTo(3));
    await ref.stop();
    await runtime.shutdown();
    const events = JSON.parse(readFileSync(join(dir, "trace.json"), "utf8")) as {
      name: string;
      ph: string;
      ts: number;
      dur: number;
    }[];
    const calls = events.filter(({ ph }) => ph === "X");
    expect(calls.map(({ name }) => name)).toEqual(["spinMs", "crashUntil", "countTo"]);
    expect(calls[0]?.dur).toBeGreaterThanOrEqual(29_000);
    expect(Math.abs((calls[0]?.ts ?? 0) / 1000 - before)).toBeLessThan(10_000);
    const states = events.filter(({ ph }) => ph === "i").map(({ name }) => name);
    expect(states).toEqual(["PENDING_CREATION", "ALIVE", "DEAD"]);
  });

  it("X2 a trace file that cannot be written is refused at the start", async () => {
    await expect(createRuntime({ traceFile: join(dir, "no", "trace") })).rejects.toMatchObject({
      code: "ENOENT",
    });
  });
});

describe("groups and pools", () => {
  it("spawnGroup gives each member its options and its name, and routes", async () => {
    await using group = await runtime.spawnGroup(worker, (index) => ({ extra: index }), {
      numWorkers: 3,
      name: "w",
      maxConcurrency: 4,
    });
    expect(group.members.map(({ name }) => name)).toEqual(["w-0", "w-1", "w-2"]);
    const names = await Promise.all([1, 2, 3, 4].map(() => group.call.me()));
    expect(names.map(({ name }) => name)).toEqual(["w-0", "w-1", "w-2", "w-0"]);
    const sticky = group.forKey("rollout-7");
    expect(group.forKey("rollout-7").id).toBe(sticky.id);
  });

  it("spawnGroup ends the members that started when one does not", async () => {
    const options = (index: number) => (index === 1 ? { failFrom: 0 } : undefined);
    await expect(runtime.spawnGroup(phoenix, options, { numWorkers: 3 })).rejects.toMatchObject({
      code: "ACTOR_START_FAILED",
    });
    expect(runtime.list().every(({ state }) => state === "DEAD")).toBe(true);
    await expect(runtime.spawnGroup(phoenix, undefined, { numWorkers: 0 })).rejects.toThrow(
      /numWorkers is 0; allowed is an integer from 1/,
    );
  });

  it("a pool maps over actors, and wait takes the first results", async () => {
    const { members } = await runtime.spawnGroup(phoenix, undefined, { numWorkers: 2 });
    const pool = new ActorPool(members);
    const results: unknown[] = [];
    for await (const result of pool.map((ref, n: number) => ref.call.echo(n * n), [1, 2, 3, 4]))
      results.push(result);
    expect(results).toEqual([1, 4, 9, 16]);
    const [first, second] = members;
    if (first === undefined || second === undefined) throw new Error("a group of two has two");
    const slow = first.call.spinMs(600_000);
    const quick = second.call.spinMs(1);
    expect(await wait([slow, quick], { num: 1 })).toEqual([[quick], [slow]]);
    const ended = expect(slow).rejects.toMatchObject({ code: "ACTOR_DIED" });
    await first.kill();
    await ended;
  });
});

describe("R8 put and move", () => {
  it("R8 an array put once is read by all actors without a copy", async () => {
    const ids = runtime.put(Int32Array.of(1, 2, 3));
    const refs = await Promise.all([1, 2].map(() => runtime.spawn(worker, undefined)));
    for (const ref of refs) await ref.call.addTo(ids.buffer, 10);
    expect([...ids]).toEqual([21, 2, 3]);
    const back = (await refs[0]?.call.echo({ ids })) as { ids: Int32Array };
    ids[2] = 9;
    expect(back.ids[2]).toBe(9);
  });

  it("R8 K2 a moved array leaves its sender at once, also when the call has to wait", async () => {
    const ref = await runtime.spawn(faulty, undefined);
    const first = ref.call.later(1);
    const ids = new Uint8Array(64).fill(7);
    const waiting = ref.call.echo({ deep: [move(ids)] });
    expect(ids).toHaveLength(0);
    await first;
    expect(await waiting).toEqual({ deep: [new Uint8Array(64).fill(7)] });
  });
});
