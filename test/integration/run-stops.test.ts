/** Every other way in which a run ends early: an actor that dies, a signal, a reader that goes away. */
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { descendantsOf } from "../support/processes.js";
import { ChaosRun } from "../support/run-chaos.js";
import { claudeRun, functionRun } from "../support/run-files.js";

let folder: string;
beforeEach(() => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), "corral-stops-"));
});
afterEach(() => fs.rmSync(folder, { recursive: true }));

interface Pace {
  readonly tasks?: number;
  readonly pauseMs?: number;
  /** Rollouts from this one on wait for `openGate`. */
  readonly gatedFrom?: number;
}

function startedRun({ tasks = 8, pauseMs = 200, gatedFrom = tasks }: Pace = {}): ChaosRun {
  const gate = path.join(folder, "gate");
  const files = functionRun(folder, { tasks, concurrency: 2, pauseMs, gate, gatedFrom });
  return new ChaosRun(files, path.join(folder, "rollouts.jsonl"));
}

const openGate = () => fs.writeFileSync(path.join(folder, "gate"), "");

/** The run goes on to its end, and nothing was lost. */
async function expectWholeAfter(run: ChaosRun, storeDied = false): Promise<void> {
  await run.finish();
  await run.expectNothingLeft();
  expect(await run.faults({ storeDied })).toEqual([]);
}

describe.runIf(process.platform === "linux")("a run whose actor dies", () => {
  test.each(["model-server-policy-0", "capture-store", "rollout-consumer", "agent-harness-agent"])(
    "ends with 1, names %s, leaves nothing and can be started again",
    async (name) => {
      const run = startedRun({ gatedFrom: 2 });
      const trigger = path.join(folder, "die");
      const started = run.startWith(name, { CORRAL_TEST_DIES_WITH: trigger });
      await started.seen("[2/8]");
      const below = descendantsOf(started.child.pid!);
      fs.writeFileSync(trigger, "");
      openGate();
      const { code, stderr } = await started.result;
      expect(code, stderr).toBe(1);
      const lastLine = stderr.trimEnd().split("\n").at(-1);
      expect(lastLine).toMatch(
        new RegExp(`^corral: .*actor "${name}" .*dead \\((exit|start-failed), exit code 7`),
      );
      await run.expectNothingLeft(below);
      await expectWholeAfter(run, name === "capture-store");
    },
  );
});

describe.runIf(process.platform === "linux")("a run whose journal takes no line", () => {
  // An id that the store knows and the journal does not could never be given out again.
  test("O5 starts no attempt, says so, and goes on later", async () => {
    const run = startedRun({ tasks: 4 });
    const full = run.startWith("rollout-consumer", { CORRAL_TEST_FULL_DISK: "1" });
    const { code, stderr } = await full.result;
    expect(code, stderr).toBe(1);
    expect(stderr).toContain("ENOSPC");
    await expectWholeAfter(run);
  });
});

describe.runIf(process.platform === "linux")("a run that is told to stop", () => {
  test.each(["SIGINT", "SIGTERM", "SIGHUP"] as const)("drains on one %s", async (signal) => {
    const run = startedRun({ gatedFrom: 1 });
    const { child, seen, result } = run.start();
    await seen("[1/8]");
    child.kill(signal);
    await seen("interrupted");
    openGate();
    const { code, stdout, stderr } = await result;
    expect(code).toBe(1);
    expect(stdout).toContain("rollouts per minute");
    expect(stderr).toContain("stopped: interrupted");
    expect(stderr).not.toContain("MASKED");
    await run.expectNothingLeft();
  });

  test.each([
    ["SIGTERM", 143],
    ["SIGHUP", 129],
  ] as const)("ends at once on a second %s and leaves nothing", async (signal, exitCode) => {
    const run = startedRun({ tasks: 2, pauseMs: 10_000 });
    await endTwice(run, signal, exitCode);
  });

  test("ends Claude Code on a second SIGINT, leaves nothing, and goes on later", async () => {
    const run = new ChaosRun(claudeRun(folder, 2), path.join(folder, "rollouts.jsonl"));
    await endTwice(run, "SIGINT", 130);
    await expectWholeAfter(run);
  });

  test("keeps its exit code and its rows when nobody reads its output any more", async () => {
    const run = startedRun({ gatedFrom: 1 });
    const { child, seen, result } = run.start();
    await seen("[1/8]");
    child.stdout?.destroy();
    child.stderr?.destroy();
    child.kill("SIGINT");
    openGate();
    expect((await result).code).toBe(1);
    await run.expectNothingLeft();
    await expectWholeAfter(run);
  });
});

async function endTwice(run: ChaosRun, signal: NodeJS.Signals, exitCode: number): Promise<void> {
  const started = run.start();
  const { child, seen, result } = started;
  await run.journaled("started", 2, started);
  child.kill(signal);
  await seen("interrupted");
  const below = descendantsOf(child.pid as number);
  child.kill(signal);
  expect((await result).code).toBe(exitCode);
  await run.expectNothingLeft(below);
}
