/** The whole loop learns: rollouts, captured ids, gradient, new weights, over real threads and HTTP. */
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { createTrainer, launch, loadConfig, type RolloutRow, type Run, type Trainer } from "corral";
import { afterEach, beforeEach, expect, it } from "vitest";

const fixtures = fileURLToPath(new URL("../fixtures/orchestrator", import.meta.url));
const WORDS = ["apple", "banana", "cherry", "maple", "river", "stone"];
const quiet = { debug() {}, info() {}, warn() {}, error() {} };
const GROUP_SIZE = 8;
const STEPS = 10;

let folder: string;
beforeEach(() => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), "corral-trainer-"));
});
afterEach(() => fs.rmSync(folder, { recursive: true }));

function start(temperature = 1): Promise<Run> {
  const config = loadConfig({
    token_id_capture: { enabled: true, dir: path.join(folder, "captures") },
    responses_api_models: {
      policy: {
        engine: { kind: "embedded", seed: 3 },
        sampling_overrides: { temperature, top_p: 1, top_k: 0, max_tokens: 64 },
      },
    },
    responses_api_agents: {
      asker: {
        kind: "function",
        module: `${path.join(fixtures, "harness.mjs")}#ask`,
        model: "policy",
        token_id_capture: true,
        concurrency: 8,
      },
    },
    rollout: { group_size: GROUP_SIZE },
  });
  return launch(config, { logger: quiet, name: `t${temperature}` });
}

const task = (step: number, index = 0) => {
  const word = WORDS[(step + 2 * index) % WORDS.length] ?? "apple";
  return {
    _ng_task_index: index,
    step,
    responses_create_params: { input: `Reply with the word ${word} only.` },
    verifier: `${path.join(fixtures, "verifiers.mjs")}#answers`,
    verifier_params: { word },
  };
};

/** One step; gives the mean reward and the largest difference between replayed and captured log probabilities. */
async function step(run: Run, trainer: Trainer, index: number) {
  const rows: RolloutRow[] = [];
  for await (const group of run.rolloutGroups([0, 1, 2].map((each) => task(index, each)))) {
    await trainer.accumulate(group.trainable);
    rows.push(...group.trainable);
    await group.accept();
  }
  const { snapshot, figures, groups, calls } = await trainer.step();
  expect({ groups, calls, rows: rows.length }).toEqual({ groups: 3, calls: 24, rows: 24 });
  await run.updatePolicy(snapshot.version, () => snapshot);
  return {
    reward: rows.reduce((sum, row) => sum + (row.reward ?? 0), 0) / rows.length,
    difference: figures.maxLogProbDifference,
    rows,
  };
}

it("reward rises, every captured log probability is replayed exactly, and a resumed trainer goes on", async () => {
  const statePath = path.join(folder, "trainer.state");
  const rewards: number[] = [];
  await using run = await start();
  {
    await using trainer = await createTrainer({ logger: quiet });
    expect(trainer.notes).toBeNull();
    for (let index = 0; index < STEPS; index++) {
      const { reward, difference, rows } = await step(run, trainer, index);
      expect(difference).toBe(0);
      for (const row of rows)
        expect(row._ng_token_capture).toMatchObject({
          policy_version: { min: index, max: index },
        });
      rewards.push(reward);
    }
    await trainer.save(statePath, { done: STEPS });
  }
  const mean = (list: readonly number[]) => list.reduce((a, b) => a + b, 0) / list.length;
  expect(rewards[0]).toBeLessThan(0.5);
  expect(mean(rewards.slice(-3))).toBeGreaterThan(0.7);

  await using resumed = await createTrainer({ resume: statePath, logger: quiet });
  expect(resumed.notes).toEqual({ done: STEPS });
  expect(resumed.snapshot.version).toBe(STEPS);
  // The run has these weights: what it samples now is replayed exactly by the trainer that was loaded.
  const { difference } = await step(run, resumed, STEPS);
  expect(difference).toBe(0);
});

it("D1. rows that were sampled otherwise are refused by name", async () => {
  await using run = await start(0.5);
  await using trainer = await createTrainer({ logger: quiet });
  for await (const group of run.rolloutGroups([task(0)], { groupSize: 1 }))
    await expect(trainer.accumulate(group.trainable)).rejects.toThrow(
      /rollout p1\.0-0 was sampled with temperature 0\.5, .*allowed: 1, 1, 0/,
    );
  await expect(createTrainer({ clip: -1, logger: quiet })).rejects.toThrow();
});
