/** Supervision over real threads: restarts, what callers see of them, and where they end. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type ActorDiedError, createRuntime, type Runtime } from "corral/runtime";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { phoenix } from "../fixtures/actors/phoenix.actor.mjs";
import { holder, victim } from "../fixtures/actors/victim.actor.mjs";
import { silentLogger } from "../support/runtime-support.js";

let runtime: Runtime;
let dir: string;
beforeEach(async () => {
  runtime = await createRuntime({ logger: silentLogger });
  dir = mkdtempSync(join(tmpdir(), "restart-"));
});
afterEach(async () => {
  await runtime.shutdown({ deadlineMs: 2000 });
  rmSync(dir, { recursive: true });
});
const soon = { backoffMs: [1, 5] as const };
const diedOf = (call: Promise<unknown>): Promise<ActorDiedError> =>
  call.then(
    () => expect.fail("resolved"),
    (error: unknown) => error as ActorDiedError,
  );

describe("R4 restart", () => {
  it("R4 runs create again with the same options; what waited goes to the new thread", async () => {
    const log = join(dir, "creates");
    const options = { log };
    const ref = await runtime.spawn(phoenix, options, { maxRestarts: 2, ...soon });
    options.log = "changed";
    const dying = ref.call.crash();
    const waiting = [ref.call.restartCount(), ref.call.echo("kept")];
    expect(await diedOf(dying)).toMatchObject({
      code: "ACTOR_DIED",
      maybeExecuted: true,
      report: { cause: "exit", exitCode: 3, lastMethod: "crash", restarts: 0 },
    });
    expect(await Promise.all(waiting)).toEqual([1, "kept"]);
    expect([ref.state, readFileSync(log, "utf8")]).toEqual(["ALIVE", "0\n1\n"]);
  });

  it("R4 above maxRestarts the actor is DEAD, and says how often it was restarted", async () => {
    const ref = await runtime.spawn(phoenix, undefined, { maxRestarts: 2, ...soon });
    for (const restarts of [0, 1, 2])
      expect((await diedOf(ref.call.crash())).report).toMatchObject({ cause: "exit", restarts });
    const later = await diedOf(ref.call.echo(1));
    expect([later.report.restarts, later.maybeExecuted]).toEqual([2, false]);
    expect(later.message).toContain("restarted 2 times before");
    expect(runtime.list()).toMatchObject([{ state: "DEAD", restarts: 2, report: { restarts: 2 } }]);
  });

  it("R4 S1 a third-party holder in another actor hears of the death and uses the new thread", async () => {
    const ref = await runtime.spawn(victim, undefined, {
      maxRestarts: 1,
      maxConcurrency: 2,
      ...soon,
    });
    const other = await runtime.spawn(holder, { nested: { refs: [ref] } }, { maxConcurrency: 4 });
    const pending = other.call.call("wait");
    expect(await other.call.call("ping", 1)).toEqual({ value: 1 });
    const died = { name: "ActorDiedError", code: "ACTOR_DIED", cause: "exit", exitCode: 5 };
    const killing = diedOf(ref.call.exit(5));
    expect(await pending).toMatchObject({ error: died });
    await killing;
    expect(await other.call.call("ping", 2)).toEqual({ value: 2 });
    expect(await ref.call.ping(3)).toBe(3);
    const end = diedOf(ref.call.exit(5));
    await end;
    expect(await other.call.call("ping", 4)).toMatchObject({ error: died });
  });

  it("R4 a create that fails at a restart is one more death; the last report is told", async () => {
    const log = join(dir, "creates");
    const ref = await runtime.spawn(phoenix, { log, failFrom: 1 }, { maxRestarts: 3, ...soon });
    const dying = diedOf(ref.call.crash());
    const waiting = diedOf(ref.call.echo(1));
    await dying;
    const { report } = await waiting;
    expect(report).toMatchObject({ cause: "start-failed", restarts: 3 });
    expect(report.error).toMatchObject({ message: "cannot come back" });
    expect(readFileSync(log, "utf8")).toBe("0\n1\n2\n3\n");
  });

  it("R4 a first create that fails is told to its spawner, and not repeated", async () => {
    const log = join(dir, "creates");
    await expect(
      runtime.spawn(phoenix, { log, failFrom: 0 }, { maxRestarts: 3, ...soon }),
    ).rejects.toMatchObject({ code: "ACTOR_START_FAILED" });
    expect(readFileSync(log, "utf8")).toBe("0\n");
  });

  it("R3 R4 an idempotent method runs again until it answers, or has no retries left", async () => {
    const ref = await runtime.spawn(phoenix, undefined, { maxRestarts: 5, ...soon });
    expect(await ref.call.crashUntil(2)).toBe(2);
    const strict = { maxRestarts: 5, maxTaskRetries: 1, ...soon };
    const once = await runtime.spawn(phoenix, undefined, strict);
    expect(await diedOf(once.call.crashUntil(4))).toMatchObject({
      maybeExecuted: true,
      report: { restarts: 1 },
    });
    expect(await once.call.restartCount()).toBe(2);
  });

  it("R4 stop and kill end it for good; kill with restart does not", async () => {
    const ref = await runtime.spawn(phoenix, undefined, { maxRestarts: 9, ...soon });
    const open = diedOf(ref.call.wait());
    void ref.kill({ restart: true });
    expect((await open).report.cause).toBe("killed");
    expect(await ref.call.restartCount()).toBe(1);
    expect(await ref.stop()).toMatchObject({ cause: "stopped", restarts: 1 });
    expect(ref.state).toBe("DEAD");
    const other = await runtime.spawn(phoenix, undefined, { maxRestarts: 9, ...soon });
    expect(await other.kill()).toMatchObject({ cause: "killed", restarts: 0 });
    expect(other.state).toBe("DEAD");
  });

  it("R4 R9 an actor that waits for its restart dies at once when it is stopped, or at shutdown", async () => {
    const late = { maxRestarts: 1, backoffMs: [60_000, 60_000] as const };
    const ref = await runtime.spawn(phoenix, undefined, late);
    await diedOf(ref.call.crash());
    const waiting = diedOf(ref.call.echo(1));
    expect(ref.state).toBe("RESTARTING");
    expect(runtime.list()[0]).toMatchObject({ state: "RESTARTING", report: { cause: "exit" } });
    expect(await ref.kill()).toMatchObject({ cause: "exit", exitCode: 3 });
    expect((await waiting).maybeExecuted).toBe(false);
    const other = await runtime.spawn(phoenix, undefined, late);
    await diedOf(other.call.crash());
    const { actors } = await runtime.shutdown({ deadlineMs: 2000 });
    expect(actors.map((actor) => [actor.id, actor.report.cause])).toEqual([[other.id, "exit"]]);
  });

  it("R3 S4 a caller that dies gives back its places and its pending calls", async () => {
    const target = await runtime.spawn(victim, undefined, { maxPendingCalls: 3, onFull: "wait" });
    const doomed = await runtime.spawn(
      holder,
      { nested: { refs: [target] } },
      { maxConcurrency: 4 },
    );
    const calls = [1, 2, 3].map(() => doomed.call.call("spin"));
    const outcome = Promise.allSettled(calls);
    const watching = async () => {
      while (target.pendingCalls < 3) await new Promise((resolve) => setImmediate(resolve));
    };
    await watching();
    const after = target.call.ping("mine");
    await doomed.kill();
    await outcome;
    // One spins in the target for good; the two that waited are forgotten.
    while (target.pendingCalls > 1) await new Promise((resolve) => setImmediate(resolve));
    await target.kill();
    await expect(after).rejects.toMatchObject({ code: "ACTOR_DIED", maybeExecuted: false });
  });
});

describe("R6 hang", () => {
  it("R6 a spinning actor is ended with cause hang and restarted; its calls are told", async () => {
    const ref = await runtime.spawn(phoenix, undefined, {
      hangTimeoutMs: 300,
      maxRestarts: 1,
      ...soon,
    });
    expect(await diedOf(ref.call.spin())).toMatchObject({
      report: { cause: "hang", lastMethod: "spin" },
    });
    expect(await ref.call.restartCount()).toBe(1);
  });

  it("R6 a busy main thread is no hang of its actors", async () => {
    const ref = await runtime.spawn(phoenix, undefined, { hangTimeoutMs: 1000 });
    for (let round = 0; round < 3; round++) {
      const busy = ref.call.spinMs(100);
      const end = performance.now() + 1500;
      while (performance.now() < end);
      expect(await busy).toBe(100);
    }
    expect(ref.state).toBe("ALIVE");
  });
});
