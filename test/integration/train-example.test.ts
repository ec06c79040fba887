/** The training example in its fast form: it trains, goes on where it was, and writes what it promises. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, expect, it } from "vitest";

const script = fileURLToPath(
  new URL("../../examples/train-claude-code/train.mjs", import.meta.url),
);
let out: string;
beforeEach(() => {
  out = fs.mkdtempSync(path.join(os.tmpdir(), "corral-example-"));
});
afterEach(() => fs.rmSync(out, { recursive: true }));

async function train(...more: string[]): Promise<string> {
  const args = [script, "--fast", "--evaluate", "1", "--out", out, ...more];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "pipe"] });
  let text = "";
  child.stdout.on("data", (chunk) => (text += chunk));
  child.stderr.on("data", (chunk) => (text += chunk));
  const [code] = await once(child, "close");
  expect(code, text).toBe(0);
  return text;
}

const summary = () => JSON.parse(fs.readFileSync(path.join(out, "summary.json"), "utf8"));

it("trains on captured ids, resumes, and leaves plot, checkpoint and metrics", async () => {
  expect(await train("--updates", "2")).toContain("untrained, held-out words");
  expect(summary()).toMatchObject({ updates: 2, max_log_prob_difference: 0 });
  expect(summary().stats).toMatchObject({ masked: 0, failed: 0, delivered_fraction: 1 });

  expect(await train("--updates", "3")).not.toContain("untrained, held-out words");
  expect(summary()).toMatchObject({ updates: 3, max_log_prob_difference: 0 });
  expect(summary().stats.policy_version).toBe(3);
  expect(fs.readFileSync(path.join(out, "reward.svg"), "utf8")).toMatch(/^<svg .*<path /s);
  const journal = fs.readFileSync(path.join(out, "runs/loop/journal.jsonl"), "utf8");
  const states = journal
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
  const passes = states.filter(({ state }) => state === "pass").map(({ pass }) => pass);
  expect(passes).toEqual(passes.map((_, index) => index + 1));
  const finished = states.filter(({ state }) => state === "finished");
  const accepted = states.filter(({ state }) => state === "accepted");
  expect(accepted).toHaveLength(finished.length);
}, 600_000);

it("re-tokenised text shows a KL error, captured ids do not", async () => {
  await train("--updates", "1", "--retokenised");
  const lines = fs
    .readFileSync(path.join(out, "runs/loop/metrics.jsonl"), "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
  const step = lines.find(({ generation_kl_error }) => generation_kl_error !== undefined);
  expect(step.generation_kl_error).toBeGreaterThan(0);
}, 600_000);
