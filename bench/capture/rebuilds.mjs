// What lies on the disk, and what freeze, rebuild and drop of it cost.
import { statSync } from "node:fs";
import { join } from "node:path";
import {
  finalizeRolloutTokenCapture,
  retireRolloutTokenCapture,
  STORE_FILE_NAME,
  StoreSink,
  TokenCaptureStore,
} from "corral/capture";
import { figure, median, printTable } from "./figures.mjs";
import { callsOf, capturedTokens, SHAPES } from "./workload.mjs";

async function record(store, sink, rolloutId, shape, seed) {
  await store.open(rolloutId);
  for (const entry of callsOf(rolloutId, shape, seed + 1)) await sink.put(entry);
}

/** Bytes on disk, freeze, rebuild and drop of one long rollout. */
export async function storage(bench) {
  const dir = bench.folder();
  const size = () => statSync(join(dir, STORE_FILE_NAME)).size;
  const count = bench.quick ? 5 : 20;
  const store = new TokenCaptureStore({ dir });
  await store.close();
  const empty = size();
  const first = new TokenCaptureStore({ dir });
  const sink = new StoreSink(first);
  for (let n = 0; n < count; n += 1) await record(first, sink, `r${n}`, SHAPES.long, n);
  await first.close(); // checkpoints the log into the file
  const bytes = (size() - empty) / count / capturedTokens(SHAPES.long);

  const again = new TokenCaptureStore({ dir });
  const times = [];
  for (let n = 0; n < count; n += 1)
    times.push(await deliver(again, `r${n}`, n % 2 === 0 ? "views" : "plain"));
  await again.close();
  const mid = (pick) => median(times.map(pick));
  const rebuildMs = (arrays) =>
    median(times.filter((one) => one.arrays === arrays).map((one) => one.rebuildMs));
  printTable(
    ["60 calls, prompts 4,096 + 600 a call, 300 generated", ""],
    [
      ["bytes per captured token", figure(bytes)],
      ["freeze, ms", figure(mid((one) => one.freezeMs))],
      ["freeze and rebuild, ms, as a run writes its rows", figure(rebuildMs("views"))],
      ["freeze and rebuild, ms, with plain arrays (10 MB)", figure(rebuildMs("plain"))],
      ["drop, ms", figure(mid((one) => one.dropMs))],
    ],
  );
  bench.check("bytes per captured token", bytes, "<=", 0.3);
  bench.check("freeze and full rebuild of 60 calls, ms", rebuildMs("views"), "<=", 25);
}

/** As `views` the row shares the memory of the records, which is what a run with a results file does. */
async function deliver(store, rolloutId, arrays) {
  const row = { _ng_rollout_id: rolloutId, response: { output: [] } };
  let frozen = 0;
  const source = {
    freeze: async (id) => {
      const snapshot = await store.freeze(id);
      frozen = performance.now();
      return snapshot;
    },
  };
  const start = performance.now();
  const built = await finalizeRolloutTokenCapture(row, source, { arrays });
  const rebuilt = performance.now();
  if (built.masked) throw new Error(JSON.stringify(built.metrics.mask_reasons));
  if (!(await retireRolloutTokenCapture(rolloutId, store, built))) throw new Error("not dropped");
  return {
    arrays,
    freezeMs: frozen - start,
    rebuildMs: rebuilt - start,
    dropMs: performance.now() - rebuilt,
  };
}

/** Freeze by number of calls: time and memory are linear in the tokens of the chain, not in those of the prompts. */
export async function builds(bench) {
  const rows = [];
  for (const calls of [10, 100, 1000]) {
    const shape = { ...SHAPES.endless, calls };
    const tokens = shape.firstPrompt + calls * (shape.perCall + shape.generated) - shape.perCall;
    const times = [];
    const memory = [];
    for (let n = 0; n < bench.rounds; n += 1) {
      const store = new TokenCaptureStore({ dir: bench.folder() });
      await record(store, new StoreSink(store), "r", shape, 1);
      const start = performance.now();
      const { entries } = await store.freeze("r");
      times.push(performance.now() - start);
      const arrays = entries.flatMap((entry) => [
        entry.prompt_token_ids.buffer,
        entry.generation_token_ids.buffer,
        entry.generation_log_probs.buffer,
      ]);
      memory.push([...new Set(arrays)].reduce((sum, buffer) => sum + buffer.byteLength, 0));
      await store.close();
    }
    const ms = median(times);
    const held = 4 * tokens + 8 * calls * shape.generated;
    rows.push([
      calls,
      tokens,
      figure(ms),
      figure((1e6 * ms) / tokens),
      figure(median(memory) / held),
    ]);
    if (calls !== 1000) continue;
    bench.check("freeze of 1,000 calls and 1 M tokens, ms", ms, "<=", 1000);
    bench.check(
      "memory of that snapshot to its tokens and log probabilities",
      median(memory) / held,
      "<=",
      3,
    );
  }
  printTable(
    ["calls", "tokens of the chain", "freeze, ms", "ns a token", "memory to data held"],
    rows,
  );
}
