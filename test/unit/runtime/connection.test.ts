/** Callers and an actor over real ports, in one thread. */
import { afterEach, describe, expect, it } from "vitest";
import { Held, Rig, type RigThread, report, turns } from "../../support/runtime-rig.js";

const threads: RigThread[] = [];
afterEach(() => {
  for (const thread of threads.splice(0)) thread.end();
});

function connect(rig: Rig, actor: object, newsWaitMs?: number) {
  const caller = rig.caller(newsWaitMs);
  const thread = rig.thread(actor);
  threads.push(thread);
  thread.connect(caller);
  return { ...caller, thread };
}
const settled = async (calls: Promise<unknown>[]) =>
  (await Promise.allSettled(calls)).map((outcome) =>
    outcome.status === "fulfilled" ? outcome.value : outcome.reason,
  );

describe("order and limits", () => {
  it("K1 R3 sends at most maxConcurrency, in order", async () => {
    const actor = new Held();
    const { connection } = connect(new Rig({ maxConcurrency: 2 }), actor);
    const calls = [0, 1, 2, 3].map((key) => connection.call("run", [key]));
    await actor.startedCount(2);
    await turns();
    expect(actor.started).toEqual([0, 1]);
    actor.end(1);
    await actor.startedCount(3);
    actor.end(0);
    await actor.startedCount(4);
    actor.end(2);
    actor.end(3);
    expect(await Promise.all(calls)).toEqual([0, 1, 2, 3]);
    expect(actor.started).toEqual([0, 1, 2, 3]);
  });

  it("K2 a waiting call keeps its arguments", async () => {
    const actor = new Held();
    const { connection } = connect(new Rig(), actor);
    const first = connection.call("run", [0]);
    const argument = { n: 1 };
    const waiting = connection.call("run", [argument]);
    argument.n = 2;
    await actor.startedCount(1);
    actor.end(0);
    await first;
    await actor.startedCount(2);
    actor.end(1);
    expect(await waiting).toEqual({ n: 1 });
  });

  it("R3 a group has a limit and an order of its own: a full one does not hold up another", async () => {
    const actor = new Held();
    const rig = new Rig(
      {},
      {
        groups: { health: 1, io: 2 },
        methods: { ping: { group: "health" }, read: { group: "io" } },
      },
    );
    const { connection } = connect(rig, { run: actor.run, ping: () => "pong", read: actor.run });
    const calls = [connection.call("run", ["a"]), connection.call("run", ["b"])];
    for (const key of ["r1", "r2", "r3"]) calls.push(connection.call("read", [key]));
    expect(await connection.call("ping", [])).toBe("pong");
    await actor.startedCount(3);
    await turns();
    expect(actor.started).toEqual(["a", "r1", "r2"]);
    actor.end(1);
    await actor.startedCount(4);
    expect(actor.started).toEqual(["a", "r1", "r2", "r3"]);
    actor.end(0);
    await actor.startedCount(5);
    for (const index of [2, 3, 4]) actor.end(index);
    expect(await Promise.all(calls)).toEqual(["a", "b", "r1", "r2", "r3"]);
  });
});

describe("R3 maxPendingCalls", () => {
  it("R3 rejects what is over the limit, counted over all callers, and takes calls again later", async () => {
    const actor = new Held();
    const rig = new Rig({ maxPendingCalls: 2 });
    const one = connect(rig, actor);
    const two = rig.caller();
    one.thread.connect(two);
    const first = one.connection.call("run", [1]);
    const second = two.connection.call("run", [2]);
    for (const { connection } of [one, two])
      await expect(connection.call("run", [3])).rejects.toMatchObject({
        name: "PendingCallsLimitError",
        code: "PENDING_CALLS_LIMIT",
        limit: 2,
      });
    await actor.startedCount(1);
    actor.end(0);
    await first;
    const third = one.connection.call("run", [4]);
    await actor.startedCount(2);
    actor.end(1);
    await actor.startedCount(3);
    actor.end(2);
    expect(await Promise.all([second, third])).toEqual([2, 4]);
    expect(one.connection.pendingCalls).toBe(0);
  });

  it("R3 onFull wait: the call waits in its caller, and starts in its turn", async () => {
    const actor = new Held();
    const rig = new Rig({ maxPendingCalls: 1, maxConcurrency: 5, onFull: "wait" });
    const one = connect(rig, actor);
    const two = rig.caller();
    one.thread.connect(two);
    const calls = [
      one.connection.call("run", [0]),
      one.connection.call("run", [1]),
      two.connection.call("run", [2]),
      one.connection.call("run", [3]),
    ];
    for (let index = 0; index < 4; index++) {
      await actor.startedCount(index + 1);
      expect(one.connection.pendingCalls).toBe(1);
      await turns();
      expect(actor.started).toHaveLength(index + 1);
      actor.end(index);
    }
    expect(await Promise.all(calls)).toEqual([0, 1, 2, 3]);
    expect(actor.started.indexOf(1)).toBeLessThan(actor.started.indexOf(3));
  });
});

describe("death and restart", () => {
  it("K3 R1 rejects pending, waiting and later calls with the one report", async () => {
    const actor = new Held();
    const { connection } = connect(new Rig(), actor);
    const calls = [connection.call("run", ["a"]), connection.call("run", ["b"])];
    await actor.startedCount(1);
    connection.died(report);
    connection.died({ ...report, cause: "exit" });
    const reasons = await settled([...calls, connection.call("run", ["c"])]);
    expect(reasons.map((reason) => [reason.code, reason.maybeExecuted])).toEqual([
      ["ACTOR_DIED", true],
      ["ACTOR_DIED", false],
      ["ACTOR_DIED", false],
    ]);
    for (const reason of reasons) expect(reason.report).toBe(report);
    expect(await connection.dead).toBe(report);
    expect([connection.state, connection.pendingCalls]).toEqual(["DEAD", 0]);
  });

  it("K3 R1 rejects without a report when the lane closed and none came", async () => {
    const actor = new Held();
    const { connection, thread } = connect(new Rig(), actor, 10);
    const call = connection.call("run", []);
    await actor.startedCount(1);
    thread.end();
    await expect(call).rejects.toMatchObject({
      code: "ACTOR_DIED",
      report: { cause: "exit", exitCode: null },
      message: expect.stringContaining("no report"),
    });
  });

  it("K3 a report that comes after the lane closed is the one that is told", async () => {
    const actor = new Held();
    const { connection, thread } = connect(new Rig(), actor, 60_000);
    const call = connection.call("run", []);
    await actor.startedCount(1);
    thread.end();
    await turns();
    connection.died(report);
    await expect(call).rejects.toMatchObject({ report: { cause: "oom" } });
  });

  it("C2 an answer posted before the end counts, though the news came first", async () => {
    const actor = new Held();
    const { connection } = connect(new Rig({ maxConcurrency: 2 }), actor);
    const calls = [connection.call("run", ["answered"]), connection.call("run", ["open"])];
    await actor.startedCount(2);
    actor.end(0);
    // The answer is posted in a microtask; this thread's event loop has not turned since.
    await Promise.resolve()
      .then(() => Promise.resolve())
      .then(() => Promise.resolve());
    connection.died(report);
    const [first, second] = await settled(calls);
    expect([first, second.code]).toEqual(["answered", "ACTOR_DIED"]);
  });

  it("K4 R4 over a restart what waits goes to the new thread in order; what had started rejects", async () => {
    const before = new Held();
    const rig = new Rig();
    const { connection, thread, held } = connect(rig, before);
    const calls = [0, 1, 2].map((key) => connection.call("run", [key]));
    await before.startedCount(1);
    thread.end();
    connection.restarting(report);
    expect(connection.state).toBe("RESTARTING");
    const late = connection.call("run", [3]);
    const [first] = await settled([calls[0] as Promise<unknown>]);
    expect(first).toMatchObject({ code: "ACTOR_DIED", maybeExecuted: true });
    const after = new Held();
    const next = rig.thread(after);
    threads.push(next);
    next.connect({ connection, held });
    expect(connection.state).toBe("ALIVE");
    for (let index = 0; index < 3; index++) {
      await after.startedCount(index + 1);
      after.end(index);
    }
    expect(await Promise.all([...calls.slice(1), late])).toEqual([1, 2, 3]);
    expect(after.started).toEqual([1, 2, 3]);
  });

  it("K4 R3 a call of an idempotent method runs again, before all that waits, as often as it has retries", async () => {
    const rig = new Rig({ maxTaskRetries: 1 }, { methods: { run: { idempotent: true } } });
    const before = new Held();
    const { connection, thread, held } = connect(rig, before);
    const argument = { n: 0 };
    const calls = [connection.call("run", [argument]), connection.call("run", [1])];
    argument.n = 5;
    await before.startedCount(1);
    const restart = (actor: Held, old: RigThread) => {
      old.end();
      connection.restarting(report);
      const next = rig.thread(actor);
      threads.push(next);
      next.connect({ connection, held });
      return next;
    };
    const second = new Held();
    const secondThread = restart(second, thread);
    await second.startedCount(1);
    expect(second.started).toEqual([{ n: 0 }]);
    const third = new Held();
    restart(third, secondThread);
    const [first] = await settled([calls[0] as Promise<unknown>]);
    expect(first).toMatchObject({ code: "ACTOR_DIED", maybeExecuted: true });
    await third.startedCount(1);
    expect(third.started).toEqual([1]);
    third.end(0);
    expect(await calls[1]).toBe(1);
  });

  it("K3 C3 knows that a call which was sent had not started", async () => {
    const { connection, thread } = connect(new Rig({ maxConcurrency: 2 }), new Held());
    const call = connection.call("run", [1]);
    // Sent, but the actor's side has had no turn to receive it.
    thread.end();
    connection.died(report);
    await expect(call).rejects.toMatchObject({ maybeExecuted: false });
  });
});

describe("R5 giving up", () => {
  it("K5 R5 a call that waits never starts, and says it was queued", async () => {
    const actor = new Held();
    const { connection } = connect(new Rig(), actor);
    const running = connection.call("run", ["a"]);
    const controller = new AbortController();
    const cancelled = connection.call("run", ["b"], { signal: controller.signal });
    const last = connection.call("run", ["c"]);
    await actor.startedCount(1);
    controller.abort(new Error("enough"));
    await expect(cancelled).rejects.toMatchObject({
      code: "CALL_CANCELLED",
      phase: "queued",
      cause: { message: "enough" },
    });
    actor.end(0);
    await actor.startedCount(2);
    actor.end(1);
    expect(await Promise.all([running, last])).toEqual(["a", "c"]);
    expect(actor.started).toEqual(["a", "c"]);
    expect(connection.pendingCalls).toBe(0);
  });

  it("K5 R5 a signal that is aborted already sends nothing", async () => {
    const actor = new Held();
    const { connection } = connect(new Rig(), actor);
    const call = connection.call("run", [1], { signal: AbortSignal.abort() });
    await expect(call).rejects.toMatchObject({ code: "CALL_CANCELLED", phase: "queued" });
    await turns();
    expect([actor.started, connection.pendingCalls]).toEqual([[], 0]);
  });

  it("R5 a timeout says whether the call was queued or running, and a running one keeps its place", async () => {
    const actor = new Held();
    const { connection } = connect(new Rig(), actor);
    const running = connection.call("run", ["a"], { timeoutMs: 30 });
    const queued = connection.call("run", ["b"], { timeoutMs: 10 });
    await expect(queued).rejects.toMatchObject({ code: "CALL_TIMEOUT", phase: "queued" });
    await expect(running).rejects.toMatchObject({ code: "CALL_TIMEOUT", phase: "running" });
    const next = connection.call("run", ["c"]);
    await turns();
    expect([actor.started, connection.pendingCalls]).toEqual([["a"], 2]);
    actor.end(0);
    await actor.startedCount(2);
    actor.end(1);
    expect(await next).toBe("c");
  });

  it("R5 killAfterMs ends a thread whose call goes on, and leaves alone one whose call has ended", async () => {
    const actor = new Held();
    const rig = new Rig({ maxConcurrency: 2 });
    const { connection } = connect(rig, actor);
    const controller = new AbortController();
    const options = { signal: controller.signal, killAfterMs: 20 };
    const calls = [
      connection.call("run", ["ends"], options),
      connection.call("run", ["stays"], options),
    ];
    await actor.startedCount(2);
    const crashed = rig.whenCrashed();
    controller.abort();
    expect((await settled(calls)).map(({ code }) => code)).toEqual(Array(2).fill("CALL_CANCELLED"));
    actor.end(0);
    await crashed;
    expect(rig.crashed).toEqual(["a-1"]);
  });
});
