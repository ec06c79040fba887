/**
 * `kill -9` of the whole process at random moments, with the same `--out` afterwards.
 *
 * `CORRAL_KILLS`, `CORRAL_CLAUDE_KILLS` and `CORRAL_EVERY_STEP` set how many (`npm run soak:kill`); `CORRAL_SEED`
 * repeats the moments of an earlier run, as its output names it.
 */
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type ChaosFiles, ChaosRun, type Moment, seededRandom } from "../support/run-chaos.js";
import { claudeRun, functionRun } from "../support/run-files.js";

const KILLS = Number(process.env["CORRAL_KILLS"] ?? 2);
const CLAUDE_KILLS = Number(process.env["CORRAL_CLAUDE_KILLS"] ?? 1);
const EVERY_STEP = process.env["CORRAL_EVERY_STEP"] !== undefined;
const seed = Number(process.env["CORRAL_SEED"] ?? Date.now() % 1_000_000);
const random = seededRandom(seed);
/** Every step of the start and of a rollout, or some of them. */
const STEPS = Array.from({ length: 24 }, (_, index) => index + 1);
const KILL_STEPS = EVERY_STEP ? STEPS : STEPS.filter(() => random() < 0.08);
const STATES = ["started", "finished", "handed_off", "accepted"] as const;

let folder: string;
beforeEach(() => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), "corral-kill-"));
});
afterEach(() => fs.rmSync(folder, { recursive: true }));

/** One run, killed at each of these steps, then its end. */
async function killAtSteps(actor: string, steps: readonly number[]): Promise<void> {
  const files = functionRun(folder, { tasks: 2 + steps.length, concurrency: 1, numWorkers: 1 });
  const run = new ChaosRun(files, path.join(folder, "steps.jsonl"));
  for (const step of steps) {
    const last = await run.kill({ actor, step });
    console.log(`${actor}: step ${step}: ${last ?? "had ended"}`);
  }
  expect((await run.finish()).code).toBe(0);
  await run.expectNothingLeft();
  expect(await run.faults(), `steps ${steps.join(" ")}`).toEqual([]);
}

/** Any time of a run, or right after a record of the journal, where seal, freeze, append and drop are. */
function anyMoment(durationMs: number, rollouts: number): Moment {
  if (random() < 0.5) return { afterMs: Math.round(random() * durationMs) };
  const state = STATES[Math.floor(random() * STATES.length)] ?? "started";
  return { state, count: 1 + Math.floor(random() * rollouts) };
}

/** Kills one run up to so many times and lets it end. Returns how many kills fell while it ran. */
async function killAndFinish(
  files: ChaosFiles,
  out: string,
  durationMs: number,
  kills: number,
): Promise<number> {
  const run = new ChaosRun(files, path.join(folder, out));
  fs.truncateSync(files.acknowledged);
  let fallen = 0;
  for (let kill = 0; kill < kills; kill++) {
    const moment = anyMoment(durationMs, files.slots.length);
    const last = await run.kill(moment);
    if (last !== undefined) fallen++;
    console.log(`seed ${seed}: ${out}: ${JSON.stringify(moment)}: ${last ?? "had ended"}`);
  }
  expect((await run.finish()).code).toBe(0);
  await run.expectNothingLeft();
  expect(await run.faults(), `seed ${seed}`).toEqual([]);
  return fallen;
}

async function soak(files: ChaosFiles, kills: number): Promise<void> {
  const { durationMs } = await new ChaosRun(files, path.join(folder, "whole.jsonl")).finish();
  for (let fallen = 0, round = 0; fallen < kills; round++) {
    const next = Math.min(1 + Math.floor(random() * 3), kills - fallen);
    fallen += await killAndFinish(files, `killed-${round}.jsonl`, durationMs, next);
  }
}

describe.runIf(process.platform === "linux")("kill -9 of a run", () => {
  test(`${KILLS} times: no acknowledged call is lost, no row is lost or doubled, nothing is left`, {
    timeout: 120_000 + KILLS * 60_000,
  }, async () => {
    await soak(functionRun(folder, { tasks: 12, concurrency: 4 }), KILLS);
  });

  test.each(["rollout-consumer", "capture-store"])(
    "in the thread of the %s, between the writes that make a rollout durable",
    { timeout: 120_000 + KILL_STEPS.length * 60_000 },
    async (actor) => {
      await killAtSteps(actor, KILL_STEPS);
    },
  );

  test(`${CLAUDE_KILLS} times with Claude Code`, {
    timeout: 120_000 + CLAUDE_KILLS * 240_000,
  }, async () => {
    await soak(claudeRun(folder, 8), CLAUDE_KILLS);
  });
});
