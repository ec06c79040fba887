/** Cancellation, timeouts and concurrency groups over real threads. */
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

describe("R5 cancellation", () => {
  it("R5 the caller's promise rejects at once and the method sees its own signal, also after an await", async () => {
    const controllers = [new AbortController(), new AbortController()];
    const calls = controllers.map(({ signal }) => ref.with({ signal }).call.abortSeenLater());
    await ref.call.listening(2);
    controllers[0]?.abort(new Error("not needed"));
    await expect(calls[0]).rejects.toMatchObject({
      name: "CallCancelledError",
      code: "CALL_CANCELLED",
      method: "abortSeenLater",
      phase: "running",
      cause: { message: "not needed" },
    });
    expect(await ref.call.aborts(1)).toBe(1);
    controllers[1]?.abort();
    await expect(calls[1]).rejects.toMatchObject({ code: "CALL_CANCELLED" });
    expect(await ref.call.aborts(2)).toBe(2);
  });

  it("R5 a timeout cancels too, and says that the call was running", async () => {
    const seen = await ref.call.aborts(0);
    await expect(ref.with({ timeoutMs: 20 }).call.untilAborted()).rejects.toMatchObject({
      code: "CALL_TIMEOUT",
      timeoutMs: 20,
      phase: "running",
    });
    expect(await ref.call.aborts(seen + 1)).toBe(seen + 1);
  });

  it("R5 N2 flows to the calls made within the call, through any number of actors", async () => {
    const last = await runtime.spawn(phoenix, undefined, { maxConcurrency: 4 });
    const middle = await runtime.spawn(phoenix, undefined, { maxConcurrency: 4 });
    const controller = new AbortController();
    const cancellable = middle.with({ signal: controller.signal });
    const call = cancellable.call.callOther(last, "untilAborted");
    await last.call.listening(1);
    controller.abort();
    await expect(call).rejects.toMatchObject({ code: "CALL_CANCELLED" });
    expect(await last.call.aborts(1)).toBe(1);
  });

  it("R5 A5 the death of a caller cancels its calls", async () => {
    const last = await runtime.spawn(phoenix, undefined, { maxConcurrency: 4 });
    const middle = await runtime.spawn(phoenix, undefined, { maxConcurrency: 4 });
    const signal = new AbortController().signal;
    const call = middle.with({ signal }).call.callOther(last, "untilAborted");
    await last.call.listening(1);
    await middle.kill();
    await expect(call).rejects.toMatchObject({ code: "ACTOR_DIED" });
    expect(await last.call.aborts(1)).toBe(1);
  });

  it("R5 a call that nobody can cancel has a signal that never aborts", async () => {
    expect(await ref.call.hasSignal()).toEqual([true, false]);
  });

  it("R5 killAfterMs ends the thread of a call that does not listen, and the actor restarts", async () => {
    const stubborn = await runtime.spawn(phoenix, undefined, { maxRestarts: 1, backoffMs: [1, 1] });
    const call = stubborn.with({ timeoutMs: 20, killAfterMs: 20 }).call.spin();
    const waiting = stubborn.call.restartCount();
    await expect(call).rejects.toMatchObject({ code: "CALL_TIMEOUT", phase: "running" });
    expect(await waiting).toBe(1);
  });

  it("R5 one signal for many calls makes no listener warnings", async () => {
    const warnings: Error[] = [];
    const onWarning = (warning: Error) => warnings.push(warning);
    process.on("warning", onWarning);
    const { signal } = new AbortController();
    const cancellable = ref.with({ signal });
    await Promise.all(Array.from({ length: 100 }, (_, index) => cancellable.call.echo(index)));
    await new Promise((resolve) => setImmediate(resolve));
    process.off("warning", onWarning);
    expect(warnings).toEqual([]);
  });
});

describe("R3 concurrency groups", () => {
  it("R3 a method in a group of its own does not wait behind a full one", async () => {
    const busy = await runtime.spawn(phoenix, undefined);
    const open = busy.call.wait().catch((error: unknown) => error);
    const queued = busy.call.echo(1).catch((error: unknown) => error);
    expect(await busy.call.health()).toBe("well");
    await busy.kill();
    expect(await open).toMatchObject({ maybeExecuted: true });
    expect(await queued).toMatchObject({ maybeExecuted: false });
  });

  it("R3 stop and kill pass a full mailbox: they have a lane of their own", async () => {
    const busy = await runtime.spawn(phoenix, undefined);
    const calls = [busy.call.wait(), busy.call.echo(1)].map((call) =>
      call.catch((error: unknown) => error),
    );
    await busy.call.health();
    expect(await busy.stop({ deadlineMs: 50 })).toMatchObject({ cause: "killed" });
    expect(await Promise.all(calls)).toMatchObject([
      { code: "ACTOR_DIED" },
      { code: "ACTOR_DIED" },
    ]);
  });
});
