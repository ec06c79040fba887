/** Config and tasks of whole runs, as a user would write them, for tests that hold a run against its harness's log. */
import fs from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import type { ChaosFiles } from "./run-chaos.js";

const repository = fileURLToPath(new URL("../..", import.meta.url));
const fixtures = path.join(repository, "test/fixtures");

interface FunctionRun {
  readonly tasks: number;
  readonly concurrency: number;
  readonly numWorkers?: number;
  /** Time that every rollout waits after its first call. */
  readonly pauseMs?: number;
  /** Rollouts of the tasks from this one on wait, after their first call, for the file at `gate`. */
  readonly gatedFrom?: number;
  readonly gate?: string;
}

/** Three calls a rollout, by a function. */
export function functionRun(
  folder: string,
  { tasks, concurrency, numWorkers = 2, pauseMs, gate, gatedFrom = 0 }: FunctionRun,
): ChaosFiles {
  const waits = (index: number) => ({
    ...(pauseMs === undefined ? {} : { "pause.txt": String(pauseMs) }),
    ...(gate === undefined || index < gatedFrom ? {} : { "gate.txt": gate }),
  });
  const lines = Array.from({ length: tasks }, (_, index) => ({
    _ng_task_index: index,
    responses_create_params: { input: `Write the word heron into the file plan${index}.txt.` },
    verifier: `${path.join(fixtures, "orchestrator/verifiers.mjs")}#always`,
    files: waits(index),
  }));
  const module = `${path.join(fixtures, "orchestrator/harness.mjs")}#acknowledging`;
  const model = { engine: { kind: "embedded", seed: 0 }, num_workers: numWorkers };
  return writeFiles(folder, { kind: "function", module, concurrency }, model, lines);
}

/** The first tasks of the example, with its policy, through the real CLI. */
export function claudeRun(folder: string, tasks: number): ChaosFiles {
  const example = path.join(repository, "examples/claude-code");
  const lines = fs
    .readFileSync(path.join(example, "tasks.jsonl"), "utf8")
    .split("\n")
    .filter((line) => line !== "")
    .slice(0, tasks)
    .map((line) => ({
      ...JSON.parse(line.replaceAll("./verifiers.mjs", `${example}/verifiers.mjs`)),
      agent_ref: { name: "agent" },
    }));
  const binary = path.join(folder, "claude.mjs");
  fs.copyFileSync(path.join(fixtures, "acknowledging-claude.mjs"), binary);
  fs.chmodSync(binary, 0o755);
  const real = fs.realpathSync(path.join(repository, "node_modules/.bin/claude"));
  fs.symlinkSync(real, path.join(folder, "claude-real"));
  const agent = { kind: "claude_code", binary, concurrency: 4, max_turns: 6 };
  const engine = { kind: "embedded", checkpoint: path.join(example, "policy.checkpoint") };
  return writeFiles(folder, agent, { engine, num_workers: 2 }, lines);
}

function writeFiles(
  folder: string,
  agent: object,
  model: object,
  tasks: readonly object[],
): ChaosFiles {
  const inFolder = (name: string) => path.join(folder, name);
  const config = {
    token_id_capture: { enabled: true, dir: inFolder("captures") },
    responses_api_models: {
      policy: {
        ...model,
        sampling_overrides: { temperature: 1, top_p: 1, top_k: 0, max_tokens: 64 },
      },
    },
    responses_api_agents: { agent: { model: "policy", token_id_capture: true, ...agent } },
    rollout: { seed: 0 },
  };
  fs.writeFileSync(inFolder("corral.yaml"), JSON.stringify(config));
  const lines = tasks.map((task) => `${JSON.stringify(task)}\n`);
  fs.writeFileSync(inFolder("tasks.jsonl"), lines.join(""));
  fs.writeFileSync(inFolder("acknowledged.jsonl"), "");
  fs.mkdirSync(inFolder("tmp"));
  // Harnesses of another user pass through the folder and write the log.
  fs.chmodSync(folder, 0o755);
  fs.chmodSync(inFolder("acknowledged.jsonl"), 0o666);
  return {
    config: inFolder("corral.yaml"),
    tasks: inFolder("tasks.jsonl"),
    slots: tasks.map((_, index) => `${index}-0`),
    acknowledged: inFolder("acknowledged.jsonl"),
    tempRoot: inFolder("tmp"),
    env: { CORRAL_TEST_ACKNOWLEDGED: inFolder("acknowledged.jsonl") },
  };
}
