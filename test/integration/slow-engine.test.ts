/**
 * An engine that takes longer than a CLI waits in silence. Time is scaled: the server's clock and the engine run forty
 * times as fast as they say, and Codex, which has an option for it, gives up after 5 s in place of 300 s.
 *
 * Unscaled, by hand (a quarter of an hour):
 *   CORRAL_SLOW_ENGINE_S=400 npx vitest run --project integration test/integration/slow-engine.test.ts
 */
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { type AgentHarnessOptions, agentHarness } from "corral/actors";
import { createRuntime } from "corral/runtime";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { Clock } from "../../src/actors/model-server/clock.js";
import { rolloutKey } from "../../src/actors/model-server/rollout-key.js";
import { finalizeRolloutTokenCapture, isTrainable } from "../../src/capture/index.js";
import { temporaryStore } from "../support/capture.js";
import {
  emitted,
  ScriptedEngine,
  SECRET,
  startServer,
  storeCapture,
  toolCallText,
} from "../support/model-server.js";

const unscaledS = Number(process.env["CORRAL_SLOW_ENGINE_S"] ?? 0);
const engineMs = unscaledS > 0 ? unscaledS * 1000 : 400_000;
const speed = unscaledS > 0 ? 1 : 40;
const CODEX_IDLE_MS = 5000;

const clock: Clock = {
  nowMs: () => Date.now(),
  after(ms, run) {
    const timer = setTimeout(run, ms / speed);
    return () => clearTimeout(timer);
  },
};

let folder: string;
beforeEach(() => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), "corral-slow-"));
  fs.chmodSync(folder, 0o755);
});
afterEach(() => fs.rmSync(folder, { recursive: true }));

/** Codex with a shorter patience than its harness gives it. */
function impatientCodex(): string {
  const real = path.resolve(import.meta.dirname, "../../node_modules/.bin/codex");
  const file = path.join(folder, "codex");
  const option = `-c model_providers.corral.stream_idle_timeout_ms=${CODEX_IDLE_MS}`;
  const script = `#!/bin/sh\n[ "$1" = exec ] || exec "${real}" "$@"\nshift\nexec "${real}" exec ${option} "$@"\n`;
  fs.writeFileSync(file, script, { mode: 0o755 });
  return file;
}

const TOOLS = {
  claude_code: toolCallText("Bash", { command: "cat notes.txt", description: "look" }),
  codex: toolCallText("exec_command", { cmd: "cat notes.txt" }),
};

test.each(["claude_code", "codex"] as const)(
  "%s waits for an engine that takes longer than its patience, asks once, and is captured whole",
  async (kind) => {
    const slowly = async (text: string) => {
      await new Promise<void>((done) => clock.after(engineMs, done));
      return { tokenIds: await emitted(`${text}<|im_end|>`) };
    };
    const engine = new ScriptedEngine([() => slowly(TOOLS[kind]), "blue<|im_end|>"]);
    const { store } = temporaryStore();
    const { server, base } = await startServer(
      { engine, capture: storeCapture(store), clock },
      { limits: { putTimeoutMs: 10_000 * speed, sealTimeoutMs: 10_000 * speed } },
    );
    const { epoch } = await store.open("r1");
    server.openRollout({ rolloutId: "r1", epoch, captured: true });
    await using runtime = await createRuntime({
      logger: { debug() {}, info() {}, warn() {}, error() {} },
    });
    const options: AgentHarnessOptions =
      kind === "codex" && unscaledS === 0 ? { kind, binary: impatientCodex() } : { kind };
    const harness = await runtime.spawn(agentHarness, { ...options, tempRoot: folder });
    const outcome = await harness.call.run({
      rolloutId: "r1",
      task: {
        _ng_task_index: 0,
        responses_create_params: { input: "What is in notes.txt?" },
        files: { "notes.txt": "blue" },
      },
      baseUrl: base("r1"),
      apiKey: rolloutKey(SECRET, "r1", epoch),
      model: "policy",
      timeoutMs: (2 * engineMs) / speed + 60_000,
      maxTurns: 4,
    });
    await harness.stop();
    expect(outcome).toMatchObject({ failure: null, finalText: "blue" });
    expect(engine.requests).toHaveLength(2);
    const row = { _ng_rollout_id: "r1", reward: 1, response: { output: [] } };
    const { finalText: text, finalMessageId: messageId } = outcome;
    await finalizeRolloutTokenCapture(row, store, {
      ledgers: [await server.sealRollout("r1")],
      terminal: { messageId, text },
    });
    expect(isTrainable(row)).toBe(true);
    expect(row).toMatchObject({ _ng_token_capture: { n_calls: 2, chains: 1, aborted_calls: 0 } });
  },
  (2 * engineMs) / speed + 120_000,
);
