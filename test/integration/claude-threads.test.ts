/** The real Claude Code CLI with a sub-agent and with a compaction, its policy scripted behind vLLM's shape. */
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { flattenTrajectory, isTrainable, launch, loadConfig, trajectoryRows } from "corral";
import { afterEach, beforeEach, expect, test } from "vitest";
import { MockEngine, type ScriptedAnswer } from "../../src/mock-engine/index.js";
import { modelDirectory } from "../support/families.js";
import { toolCallText } from "../support/model-server.js";

const verifiers = fileURLToPath(new URL("../fixtures/orchestrator/verifiers.mjs", import.meta.url));

let folder: string;
beforeEach(() => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), "corral-threads-"));
  fs.chmodSync(folder, 0o755);
});
afterEach(() => fs.rmSync(folder, { recursive: true }));

const call = (name: string, input: object): ScriptedAnswer => ({
  text: `${toolCallText(name, input)}<|im_end|>`,
});
const say = (text: string): ScriptedAnswer => ({ text: `${text}<|im_end|>` });

interface Item {
  readonly generation_token_ids?: readonly number[];
  readonly _ng_model_call?: { readonly purpose: string };
}

/** One rollout in `all` delivery, whose model says the script. */
async function rollOut(script: readonly ScriptedAnswer[], agent: object, notes: string) {
  await using engine = await MockEngine.start({
    shape: "vllm",
    logprobsMode: "processed_logprobs",
  });
  const config = loadConfig({
    token_id_capture: { enabled: true, dir: folder, delivery: "all", output_form: "delta" },
    responses_api_models: {
      policy: {
        engine: { kind: "vllm", urls: [engine.url], model_dir: modelDirectory("qwen3") },
        sampling_overrides: { temperature: 1, top_p: 1, top_k: 0, max_tokens: 500 },
      },
    },
    responses_api_agents: {
      cli: {
        kind: "claude_code",
        isolation: "none",
        model: "policy",
        token_id_capture: true,
        ...agent,
      },
    },
  });
  await using run = await launch(config);
  engine.addAnswers(...script);
  const { row } = await run.rollout({
    _ng_task_index: 0,
    responses_create_params: { input: "What is in notes.txt?" },
    files: { "notes.txt": notes },
    verifier: `${verifiers}#always`,
  });
  expect(row["error"]).toBeUndefined();
  return row;
}

/** Each trajectory: purposes of its calls, generated tokens, mask reasons. */
function threadsOf(row: Awaited<ReturnType<typeof rollOut>>) {
  return trajectoryRows(row).map((thread) => {
    const items = (thread.response as { output: Item[] }).output;
    const purposes = items.flatMap((item) => item._ng_model_call?.purpose ?? []);
    const generated = flattenTrajectory(thread.response).lossMask.reduce(
      (sum, one) => sum + one,
      0,
    );
    const reasons = (thread["_ng_token_capture"] as { mask_reasons: { code: string }[] })
      .mask_reasons;
    return {
      purposes,
      generated,
      reasons: reasons.map(({ code }) => code),
      trainable: isTrainable(thread),
    };
  });
}

test("a sub-agent: two trajectories, main and subagent, both trainable, every sampled token in one of them", async () => {
  const row = await rollOut(
    [
      call("Agent", {
        description: "look",
        prompt: "Read notes.txt",
        subagent_type: "general-purpose",
      }),
      call("Bash", { command: "cat notes.txt" }),
      say("It says blue."),
      say("blue"),
    ],
    { tools: ["Bash", "Read", "Agent"] },
    "blue\n",
  );
  const threads = threadsOf(row);
  expect(threads.map(({ purposes, trainable }) => [...purposes, trainable])).toEqual([
    ["main", "main", true],
    ["subagent", "subagent", true],
  ]);
  const metrics = row["_ng_token_capture"] as Record<string, unknown>;
  expect(metrics).toMatchObject({
    n_calls: 4,
    roots: 2,
    terminal_attribution: { method: "message_id", chain: "delivered" },
  });
  const owned = threads.reduce((sum, { generated }) => sum + generated, 0);
  expect(owned).toBe(metrics["generated_tokens_captured"]);
});

test("L5 a compaction: a labelled segment of its own, and what follows it another; the round that the CLI repeats there is context", async () => {
  const row = await rollOut(
    [
      call("Bash", { command: "cat notes.txt" }),
      call("Bash", { command: "cat notes.txt" }),
      say("<summary>It was all blue.</summary>"),
      say("blue"),
    ],
    { compact_at_tokens: 12_000 },
    "blue is the word of the day, and so on\n".repeat(700),
  );
  const threads = threadsOf(row);
  expect(threads.map(({ purposes, reasons, trainable }) => [purposes, reasons, trainable])).toEqual(
    [
      [["main"], [], true],
      [["main", "main"], [], true],
      [["compaction"], [], true],
    ],
  );
  const owned = threads.reduce((sum, { generated }) => sum + generated, 0);
  expect(owned).toBe(
    (row["_ng_token_capture"] as { generated_tokens_captured: number }).generated_tokens_captured,
  );
});
