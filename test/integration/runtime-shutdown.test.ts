/** Ordered shutdown, stop hooks, and a process that ends by itself. */
import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { createRuntime } from "corral/runtime";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { worker } from "../fixtures/actors/worker.actor.mjs";
import { silentLogger } from "../support/runtime-support.js";

const tasks = new URL("../fixtures/tasks/tasks.mjs", import.meta.url).href;
let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "runtime-"));
});
afterEach(() => {
  rmSync(dir, { recursive: true });
});
const start = () => createRuntime({ logger: silentLogger });

describe("R9 shutdown", () => {
  it("R9 stops stage 0 first and the highest last, and lets later stages serve the earlier", async () => {
    const runtime = await start();
    const stopLog = join(dir, "stopped");
    const consumer = await runtime.spawn(worker, { stopLog }, { name: "consumer", stopStage: 2 });
    const options = { stopLog, useRef: consumer };
    await runtime.spawn(worker, options, { name: "server", stopStage: 1 });
    await runtime.spawn(worker, options, { name: "producer" });
    const report = await runtime.shutdown({ deadlineMs: 5000 });
    expect(readFileSync(stopLog, "utf8")).toBe("producer\nserver\nconsumer\n");
    expect(report.actors.map(({ name, report: { cause } }) => [name, cause])).toEqual([
      ["producer", "stopped"],
      ["server", "stopped"],
      ["consumer", "stopped"],
    ]);
    expect(report.stuckThreads).toEqual([]);
    expect(runtime.list().every(({ state }) => state === "DEAD")).toBe(true);
  });

  it("R9 lets running and waiting calls end, then refuses new work", async () => {
    const runtime = await start();
    const ref = await runtime.spawn(worker, undefined);
    const calls = [ref.call.afterMs(20), ref.call.afterMs(1), ref.call.echo("last")];
    const shutdown = runtime.shutdown({ deadlineMs: 5000 });
    const late = ref.call.echo("late");
    await expect(late).rejects.toMatchObject({ code: "ACTOR_DIED", maybeExecuted: false });
    expect(await Promise.all(calls)).toEqual([20, 1, "last"]);
    await shutdown;
    await expect(runtime.spawn(worker, undefined)).rejects.toMatchObject({
      code: "RUNTIME_CLOSING",
    });
    await expect(runtime.task(tasks, "add", [1, 2])).rejects.toMatchObject({
      code: "RUNTIME_CLOSING",
    });
    expect(await runtime.shutdown()).toBe(await shutdown);
  });

  it("R9 R1 ends an actor at the deadline and rejects its open calls", async () => {
    const runtime = await start();
    const stubborn = await runtime.spawn(worker, { stopHangs: true }, { name: "stubborn" });
    const busy = await runtime.spawn(worker, undefined, { name: "busy" });
    const open = busy.call.hold(1);
    const refused = expect(open).rejects.toMatchObject({ code: "ACTOR_DIED" });
    await stubborn.call.echo(1);
    const report = await runtime.shutdown({ deadlineMs: 100 });
    expect(report.actors.map((actor) => actor.report.cause)).toEqual(["killed", "killed"]);
    expect(report.durationMs).toBeLessThan(2000);
    await refused;
  });

  it("R9 L1 names a thread that will not die, and still rejects its calls", async () => {
    const runtime = await start();
    const ref = await runtime.spawn(worker, undefined, { name: "deaf", maxConcurrency: 2 });
    await ref.call.echo(1);
    const begun = new SharedArrayBuffer(4);
    const refused = expect(ref.call.blockSeconds(7, begun)).rejects.toMatchObject({
      code: "ACTOR_DIED",
      report: { cause: "killed", exitCode: null, lastMethod: "blockSeconds" },
    });
    while (Atomics.load(new Int32Array(begun), 0) === 0) await new Promise(setImmediate);
    const report = await runtime.shutdown({ deadlineMs: 200 });
    expect(report.stuckThreads).toEqual([ref.id]);
    await refused;
  });

  it("R9 reports an error of the stop hook", async () => {
    const runtime = await start();
    const ref = await runtime.spawn(worker, { stopThrows: true });
    const report = await ref.stop();
    expect(report).toMatchObject({ cause: "stopped", exitCode: 0, error: { code: "QUOTA" } });
    await runtime.shutdown();
  });

  it("R9 leaves nothing that keeps the process, and installs no signal handler", async () => {
    const script = `
      import { createRuntime } from "corral/runtime";
      import { worker } from ${JSON.stringify(new URL("../fixtures/actors/worker.actor.mjs", import.meta.url).href)};
      const runtime = await createRuntime();
      const ref = await runtime.spawn(worker, undefined, { name: "w" });
      const other = await runtime.spawn(worker, { extra: [ref] });
      await ref.call.echo(1);
      await runtime.task(${JSON.stringify(tasks)}, "add", [1, 2]);
      const before = process.listenerCount("SIGINT") + process.listenerCount("SIGTERM");
      const report = await runtime.shutdown();
      console.log(JSON.stringify({ before, ended: report.actors.length }));
    `;
    const { stdout } = await promisify(execFile)(
      process.execPath,
      ["--input-type=module", "--eval", script],
      { timeout: 20_000 },
    );
    expect(JSON.parse(stdout)).toEqual({ before: 0, ended: 2 });
  });
});
