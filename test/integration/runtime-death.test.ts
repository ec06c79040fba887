/** Every way an actor can die, seen by its own holder, by a holder in another actor, and by a call that still waits. */
import { type ActorDiedError, type ActorRef, createRuntime, type Runtime } from "corral/runtime";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type Holder, holder, type Victim, victim } from "../fixtures/actors/victim.actor.mjs";
import { silentLogger } from "../support/runtime-support.js";

interface Route {
  readonly name: string;
  readonly kill: (ref: ActorRef<Victim>) => Promise<unknown>;
  readonly cause: string;
  readonly exitCode: number;
  readonly lastMethod: string;
  readonly errorCode?: string;
}

const routes: Route[] = [
  {
    name: "process.exit",
    kill: (ref) => ref.call.exit(3),
    cause: "exit",
    exitCode: 3,
    lastMethod: "exit",
  },
  {
    name: "process.exit(0)",
    kill: (ref) => ref.call.exit(0),
    cause: "exit",
    exitCode: 0,
    lastMethod: "exit",
  },
  {
    name: "a throw in a timer",
    kill: (ref) => ref.call.throwInTimer(),
    cause: "error",
    exitCode: 1,
    lastMethod: "throwInTimer",
    errorCode: "LATE",
  },
  {
    name: "an unhandled rejection",
    kill: (ref) => ref.call.rejectUnhandled(),
    cause: "unhandled-rejection",
    exitCode: 1,
    lastMethod: "rejectUnhandled",
    errorCode: "UNHEARD",
  },
  {
    name: "heap exhaustion",
    kill: (ref) => ref.call.exhaustHeap(),
    cause: "oom",
    exitCode: 1,
    lastMethod: "exhaustHeap",
    errorCode: "ERR_WORKER_OUT_OF_MEMORY",
  },
  {
    name: "kill()",
    kill: (ref) => ref.kill(),
    cause: "killed",
    exitCode: 1,
    lastMethod: "wait",
  },
  {
    name: "kill() of a spinning thread",
    kill: async (ref) => {
      const spinning = ref.call.spin();
      await ref.kill();
      return spinning;
    },
    cause: "killed",
    exitCode: 1,
    lastMethod: "wait",
  },
  {
    name: "stop()",
    kill: (ref) => ref.stop({ deadlineMs: 20 }),
    // A call that never ends holds `stop` to its deadline.
    cause: "killed",
    exitCode: 1,
    lastMethod: "wait",
  },
];

let runtime: Runtime;
beforeEach(async () => {
  runtime = await createRuntime({ logger: silentLogger });
});
afterEach(async () => {
  await runtime.shutdown({ deadlineMs: 2000 });
});

const diedOf = async (call: Promise<unknown>): Promise<ActorDiedError> =>
  await call.then(
    (value) => expect.fail(`resolved with ${JSON.stringify(value)}`),
    (error: unknown) => error as ActorDiedError,
  );

describe.each(routes)("R1 death by $name", (route) => {
  // Two places: one for the call that stays open, one for the call that kills.
  const spawnVictim = (): Promise<ActorRef<Victim>> =>
    runtime.spawn(victim, undefined, { name: "victim", maxConcurrency: 2, maxHeapMiB: 32 });

  it("R1 L1 L2 rejects the pending and the later calls of its holder with one report", async () => {
    const ref = await spawnVictim();
    const pending = diedOf(ref.call.wait());
    await ref.call.ping(0);
    const killing = route.kill(ref).catch((error: unknown) => error);
    const error = await pending;
    expect(error).toMatchObject({ name: "ActorDiedError", code: "ACTOR_DIED", actorId: ref.id });
    expect(error.message).toContain('actor "victim"');
    expect(error.report).toMatchObject({ cause: route.cause, exitCode: route.exitCode });
    expect(error.report.uptimeMs).toBeGreaterThan(0);
    if (route.cause !== "killed") expect(error.report.lastMethod).toBe(route.lastMethod);
    if (route.errorCode !== undefined)
      expect(error.report.error).toMatchObject({ code: route.errorCode });
    await killing;
    const later = await diedOf(ref.call.ping(1));
    expect(later.report).toEqual(error.report);
    expect(later.maybeExecuted).toBe(false);
  });

  it("R1 S1 rejects the calls of a third-party holder in another actor", async () => {
    const ref = await spawnVictim();
    const other: ActorRef<Holder> = await runtime.spawn(
      holder,
      { nested: { refs: [ref] } },
      { maxConcurrency: 4 },
    );
    const pending = other.call.call("wait");
    expect(await other.call.call("ping", 5)).toEqual({ value: 5 });
    const killing = route.kill(ref).catch((error: unknown) => error);
    const seen = { name: "ActorDiedError", code: "ACTOR_DIED", cause: route.cause };
    expect(await pending).toMatchObject({ error: { ...seen, exitCode: route.exitCode } });
    await killing;
    expect(await other.call.call("ping", 6)).toMatchObject({
      error: { ...seen, maybeExecuted: false },
    });
  });

  it("R1 R3 rejects the calls that wait for a place, as certainly not executed", async () => {
    const ref = await spawnVictim();
    const open = diedOf(ref.call.wait());
    await ref.call.ping(0);
    const killing = route.kill(ref).catch((error: unknown) => error);
    const waiting = [diedOf(ref.call.wait()), diedOf(ref.call.ping(2)), diedOf(ref.call.ping(3))];
    await open;
    const errors = await Promise.all(waiting);
    expect(errors.map((error) => error.report.cause)).toEqual(Array(3).fill(route.cause));
    expect(errors.at(-1)?.maybeExecuted).toBe(false);
    await killing;
  });
});

describe("R1 the report", () => {
  it("R1 L3 holds the last lines of log, stdout and stderr", async () => {
    const ref = await runtime.spawn(victim, undefined);
    const error = await diedOf(ref.call.logThenExit(9));
    expect(error.report.lastLogs).toEqual(["warn about to exit", "last words"]);
    expect(error.message).toContain("exit code 9");
  });

  it("R1 reaches a holder in main through a method of another actor (R2)", async () => {
    const ref = await runtime.spawn(victim, undefined);
    const other = await runtime.spawn(holder, { nested: { refs: [ref] } });
    const error = await diedOf(other.call.rethrow("throwInTimer"));
    expect(error).toMatchObject({
      name: "ActorDiedError",
      code: "ACTOR_DIED",
      actorId: ref.id,
      report: { cause: "error", lastMethod: "throwInTimer", error: { code: "LATE" } },
    });
    expect(error.report.error).toBeInstanceOf(RangeError);
  });

  it("R1 S2 D2 answers a handle that reaches another actor after the death", async () => {
    const ref = await runtime.spawn(victim, undefined);
    const other = await runtime.spawn(holder, undefined);
    await ref.kill();
    await other.call.hold(ref);
    expect(await other.call.call("ping", 1)).toMatchObject({ error: { cause: "killed" } });
  });

  it("R1 keeps a call alive whose handle was dropped and collected", async () => {
    const { setFlagsFromString } = await import("node:v8");
    const { runInNewContext } = await import("node:vm");
    setFlagsFromString("--expose-gc");
    const collect = runInNewContext("gc") as () => void;
    const calls = await (async () => {
      const ref = await runtime.spawn(victim, undefined, { maxConcurrency: 50 });
      return Array.from({ length: 50 }, (_, index) => ref.call.ping(index));
    })();
    collect();
    await new Promise((resolve) => setImmediate(resolve));
    collect();
    expect(await Promise.all(calls)).toHaveLength(50);
  });
});
