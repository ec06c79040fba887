/**
 * Real command lines on the embedded engine, one for each dialect: every token of every rollout is delivered.
 *
 * The largest are not installed with the others (451 MB and 354 MB). To run them too:
 *   npm install --prefix DIR @anthropic-ai/claude-agent-sdk@0.3.332 opencode-ai@1.18.33
 *   CORRAL_HARNESSES=DIR npx vitest run --project integration test/integration/real-harnesses.test.ts
 */
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { isTrainable, loadConfig, runRollouts, verifyRollouts } from "corral";
import { saveCheckpoint, snapshotOf } from "corral/embedded-policy";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { FeatureVector } from "../../src/embedded-policy/features.js";
import { untrainedSnapshot } from "../../src/embedded-policy/index.js";

const verifiers = fileURLToPath(new URL("../fixtures/orchestrator/verifiers.mjs", import.meta.url));
const ROLLOUTS = 8;

let folder: string;
beforeEach(() => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), "corral-real-"));
});
afterEach(() => fs.rmSync(folder, { recursive: true }));

/** A policy that never answers in its first turn, so that every rollout has two calls or more. */
async function hastelessPolicy(): Promise<string> {
  const weights = untrainedSnapshot().weights.slice();
  const never = new FeatureVector();
  never.add(1, "action turn", "ANSWER", 0);
  const eager = new FeatureVector();
  eager.add(1, "action", "ANSWER");
  for (const index of never.indices) weights[index] = -1000;
  for (const index of eager.indices) weights[index] = 1;
  const file = path.join(folder, "policy.ckpt");
  await saveCheckpoint(file, snapshotOf(weights, 1));
  return file;
}

async function everyTokenDelivered(agent: { kind: string; binary?: string }): Promise<void> {
  const raw = {
    token_id_capture: { enabled: true, dir: path.join(folder, "captures") },
    responses_api_models: {
      policy: {
        engine: { kind: "embedded", seed: 0, checkpoint: await hastelessPolicy() },
        sampling_overrides: { temperature: 1, top_p: 1, top_k: 0, max_tokens: 256 },
      },
    },
    responses_api_agents: {
      cli: { ...agent, model: "policy", token_id_capture: true, concurrency: 2, max_turns: 30 },
    },
    rollout: { seed: 0, group_size: ROLLOUTS },
  };
  const out = path.join(folder, "rollouts.jsonl");
  const task = {
    _ng_task_index: 0,
    responses_create_params: { input: "Write the word heron into the file plan.txt." },
    files: { "notes.txt": "blue\n" },
    verifier: `${verifiers}#always`,
  };
  const summary = await runRollouts({ config: loadConfig(raw), tasks: [task], out });
  const rows = fs
    .readFileSync(out, "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
  expect(rows.map((row) => row["error"]).filter(Boolean)).toEqual([]);
  expect(summary).toMatchObject({
    rollouts: ROLLOUTS,
    completed: ROLLOUTS,
    masked: 0,
    deliveredFraction: 1,
  });
  expect(rows.filter(isTrainable)).toHaveLength(ROLLOUTS);
  for (const { _ng_token_capture: metrics } of rows) {
    expect(metrics).toMatchObject({ chains: 1, delivered_fraction: 1, mask_reasons: [] });
    expect(metrics.n_calls).toBeGreaterThanOrEqual(2);
  }
  const report = await verifyRollouts(out, loadConfig(raw));
  expect(report).toMatchObject({ rows: ROLLOUTS, maxReplayDifference: 0, faults: [] });
  expect(report.replayedCalls).toBe(report.calls);
}

const PROMISE =
  "rollouts of two calls and more are unmasked, one chain each, wholly delivered, and replay exactly";

test.each(["claude_code", "codex", "pi"])(
  `%s: ${PROMISE}`,
  (kind) => everyTokenDelivered({ kind }),
  400_000,
);

const large = process.env["CORRAL_HARNESSES"];

describe.skipIf(large === undefined)(
  large === undefined ? "skipped: CORRAL_HARNESSES names no folder" : `of ${large}`,
  () => {
    const modules = path.join(large ?? "", "node_modules");
    const sdkCli = `@anthropic-ai/claude-agent-sdk-${process.platform}-${process.arch}/claude`;

    beforeEach(() => {
      const here = process.cwd();
      process.chdir(large ?? "");
      return () => process.chdir(here);
    });

    test.each([
      ["claude_agent_sdk", { kind: "claude_agent_sdk" }],
      ["claude_code as the Agent SDK ships it", claudeOf(path.join(modules, sdkCli))],
      ["opencode", { kind: "opencode" }],
    ])(`%s: ${PROMISE}`, (_, agent) => everyTokenDelivered(agent), 400_000);
  },
);

function claudeOf(binary: string) {
  return { kind: "claude_code", binary };
}
