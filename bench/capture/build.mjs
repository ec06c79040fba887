/**
 * What a rebuild costs, as a function of calls and of tokens: from records, views on one buffer as a store hands them
 * over, to a row in a file.
 *
 *   npm run build && node --expose-gc bench/capture/build.mjs [--full-row]
 *
 * `tokens` are those of the chain (int32[T], and float64 for each generated one): what a builder must hold at least.
 * `extra` is the memory that build and projection add, as a multiple of that. A full row repeats the running prompt in
 * every item, so its size grows with calls × tokens; `--full-row` writes the one of 1,000 calls too (3 GB).
 */
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { performance } from "node:perf_hooks";
import { JsonlWriter } from "../../dist/actors/rollout-consumer/jsonl-writer.js";
import { buildTrajectory, rebuildResponse } from "../../dist/capture/index.js";

const fullRow = process.argv.includes("--full-row");

/** A chain of `calls` over `tokens`, half of each call's new tokens generated. `own`: each record has its own memory. */
function records(calls, tokens, { linked = true, own = false } = {}) {
  const buffer = Int32Array.from({ length: tokens }, (_, at) => (at * 2_654_435_761) % 151_643);
  const step = Math.floor(tokens / calls);
  const half = step >> 1;
  const copy = (ids) => (own ? ids.slice() : ids);
  return Array.from({ length: calls }, (_, index) => {
    const name = (at) => `call-${String(at).padStart(6, "0")}`;
    const end = step * (index + 1);
    /** @type {Pick<import("corral/capture").TokenEntry, "parent_resolution" | "parent_call_id">} */
    const verdict =
      index === 0
        ? { parent_resolution: "ROOT" }
        : { parent_resolution: "RESOLVED", parent_call_id: name(index - 1) };
    return {
      schema_version: 1,
      rollout_id: "r",
      model_call_id: name(index),
      model: "policy",
      prompt_token_ids: copy(buffer.subarray(0, end - half)),
      generation_token_ids: copy(buffer.subarray(end - half, end)),
      generation_log_probs: new Float64Array(half).fill(-0.5),
      output_items: [{ type: "message", role: "assistant" }],
      token_item_index: 0,
      created_at: index,
      ...(linked ? verdict : {}),
    };
  });
}

async function settledHeap() {
  for (let round = 0; round < 3; round += 1) {
    globalThis.gc?.();
    await new Promise((resolve) => setImmediate(resolve));
  }
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}

async function measure(label, entries, tokens, outputForm) {
  const generated = entries.reduce((sum, entry) => sum + entry.generation_token_ids.length, 0);
  const held = 4 * tokens + 8 * generated;
  const before = await settledHeap();
  const start = performance.now();
  const build = buildTrajectory(entries, { rolloutId: "r" });
  const response = rebuildResponse(build, { outputForm, arrays: "views" });
  const buildMs = performance.now() - start;
  const extra = ((await settledHeap()) - before) / held;
  if (build.masked || response === null) throw new Error("the chain is masked");
  const written = outputForm === "delta" || fullRow || entries.length * tokens <= 2e8;
  const row = written ? await writeRow({ _ng_rollout_id: "r", response }) : {};
  return { label, calls: entries.length, tokens, buildMs, extra, form: outputForm, ...row };
}

async function writeRow(row) {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), "corral-bench-"));
  const file = path.join(dir, "rows.jsonl");
  let peak = 0;
  const sampling = setInterval(() => {
    peak = Math.max(peak, process.memoryUsage().rss);
  }, 5);
  try {
    const rss = process.memoryUsage().rss;
    const writer = await JsonlWriter.open(file, () => undefined);
    const start = performance.now();
    await writer.append(row);
    const rowMs = performance.now() - start;
    await writer.close();
    const rowMb = fs.statSync(file).size / 1e6;
    return { rowMs, rowMb, rowPeakMb: Math.max(0, peak - rss) / 1e6 };
  } finally {
    clearInterval(sampling);
    fs.rmSync(dir, { recursive: true, force: true });
  }
}

function print(rows) {
  const shown = (value, digits) => (value === undefined ? "" : Number(value.toFixed(digits)));
  console.table(
    rows.map(({ label, calls, tokens, form, buildMs, extra, rowMs, rowMb, rowPeakMb }) => ({
      records: label,
      calls,
      tokens,
      form,
      "build ms": shown(buildMs, 1),
      "extra x": shown(extra, 2),
      "row ms": shown(rowMs, 0),
      "row MB": shown(rowMb, 1),
      "row peak MB": shown(rowPeakMb, 0),
    })),
  );
}

buildTrajectory(records(100, 10_000), { rolloutId: "r" }); // compiles the code

const byCalls = [];
for (const calls of [10, 100, 1000])
  for (const form of ["full", "delta"])
    byCalls.push(await measure("linked views", records(calls, calls * 1000), calls * 1000, form));
byCalls.push(
  await measure("views without verdicts", records(1000, 1e6, { linked: false }), 1e6, "delta"),
);
console.log("build time by calls, 1,000 tokens of chain for each call");
print(byCalls);

const byTokens = [];
for (const tokens of [250_000, 500_000, 1_000_000, 2_000_000])
  byTokens.push(await measure("linked views", records(200, tokens), tokens, "delta"));
for (const tokens of [50_000, 100_000, 200_000])
  byTokens.push(
    await measure("linked, own memory", records(200, tokens, { own: true }), tokens, "delta"),
  );
console.log("build time by tokens, 200 calls");
print(byTokens);
