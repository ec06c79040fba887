// Figures of the capture store against the disk it lies on, in one run: node bench/capture/main.mjs [--quick] [--dir D]
// Exit code 1 when a figure is outside its bound.
import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { captureStore } from "corral/actors";
import {
  finalizeRolloutTokenCapture,
  retireRolloutTokenCapture,
  StoreSink,
  TokenCaptureStore,
} from "corral/capture";
import { createRuntime } from "corral/runtime";
import { probeDisk } from "./disk.mjs";
import { figure, median, percentile, printTable } from "./figures.mjs";
import { callsOf, capturedTokens, SHAPES } from "./workload.mjs";
import { writer } from "./writer.actor.mjs";

const { values: options } = parseArgs({
  options: {
    quick: { type: "boolean", default: false },
    dir: { type: "string", default: tmpdir() },
  },
});
const rounds = options.quick ? 1 : 3;
/** Appends a second below which the disk is what bounds a commit. */
const SLOW_DISK = 1000;

const root = mkdtempSync(join(options.dir, "corral-bench-"));
const bounds = [];
let folders = 0;
const folder = () => join(root, String(folders++));
const check = (what, value, bound, holds) =>
  bounds.push([what, figure(value), bound, holds ? "yes" : "NO"]);

const silent = { debug() {}, info() {}, warn: console.error, error: console.error };
const runtime = await createRuntime({ logger: silent });
try {
  await puts();
  await longRollout();
  await storage();
  await builds();
  printTable(["bound", "measured", "allowed", "holds"], bounds);
} finally {
  await runtime.shutdown({ deadlineMs: 5000 });
  rmSync(root, { recursive: true });
}
if (bounds.some((row) => row.at(-1) === "NO")) process.exitCode = 1;

/** One store actor and so many workers. */
async function putRound({ workers, inFlight, shape, rollouts }) {
  const dir = folder();
  const store = await runtime.spawn(captureStore, { dir }, { maxConcurrency: 256 });
  const refs = await Promise.all(
    Array.from({ length: workers }, (_, index) => runtime.spawn(writer, { store, index })),
  );
  // Loads code and warms the compiler, as a server that has run for a minute.
  await Promise.all(
    refs.map((ref) =>
      ref.call.play({ rollouts: 4, inFlight, shape: SHAPES.short, prefix: "warm" }),
    ),
  );
  const disk = probeDisk(root);
  const start = performance.now();
  const played = await Promise.all(
    refs.map((ref) =>
      ref.call.play({ rollouts: Math.ceil(rollouts / workers), inFlight, shape, prefix: "r" }),
    ),
  );
  const seconds = (performance.now() - start) / 1000;
  await Promise.all(refs.map((ref) => ref.kill()));
  await store.stop();
  const times = played.flatMap(({ times }) => [...times]);
  return {
    disk,
    perSecond: times.length / seconds,
    p50: percentile(times, 50),
    p99: percentile(times, 99),
  };
}

async function puts() {
  const rows = [];
  for (const [name, rollouts] of [
    ["short", 240],
    ["long", 16],
  ])
    for (const workers of [1, 4])
      for (const inFlight of [1, 8]) {
        const shape = name === "long" ? { ...SHAPES.long, calls: 30 } : SHAPES.short;
        const made = [];
        for (let round = 0; round < rounds; round += 1)
          made.push(
            await putRound({
              workers,
              inFlight,
              shape,
              rollouts: options.quick ? rollouts / 4 : rollouts,
            }),
          );
        const best = (pick) => median(made.map(pick));
        const ratio = best(({ perSecond, disk }) => perSecond / disk.perSecond);
        const disk = best((one) => one.disk.perSecond);
        rows.push([
          name,
          workers,
          inFlight,
          figure(disk),
          figure(best((one) => one.perSecond)),
          `${figure(ratio)}x`,
          figure(best((one) => one.p50)),
          figure(best((one) => one.p99)),
          figure(best((one) => one.p50 / one.disk.p50)),
          figure(best((one) => one.p99 / one.disk.p50)),
        ]);
        if (name === "short" && workers === 4 && inFlight === 8) {
          const bound = disk < SLOW_DISK ? 4 : 0.4;
          check(
            `puts/s, 32 in flight, to appends/s (${figure(disk)}/s)`,
            ratio,
            `>= ${bound}`,
            ratio >= bound,
          );
        }
        if (name === "short" && workers === 1 && inFlight === 1) {
          const p50 = best((one) => one.p50 / one.disk.p50);
          const p99 = best((one) => one.p99 / one.disk.p50);
          check("put p50, one in flight, to fdatasync p50", p50, "<= 4", p50 <= 4);
          check("put p99, one in flight, to fdatasync p50", p99, "<= 25", p99 <= 25);
        }
      }
  printTable(
    [
      "prompts",
      "workers",
      "in flight each",
      "disk appends/s",
      "puts/s",
      "to disk",
      "p50 ms",
      "p99 ms",
      "p50 to disk's p50",
      "p99 to disk's p50",
    ],
    rows,
  );
}

/** The same new tokens cost the same, however long the conversation has become. */
async function longRollout() {
  const dir = folder();
  const store = await runtime.spawn(captureStore, { dir }, { maxConcurrency: 256 });
  const ref = await runtime.spawn(writer, { store, index: 0 });
  await ref.call.play({ rollouts: 20, inFlight: 1, shape: SHAPES.short, prefix: "warm" });
  const lanes = options.quick ? 1 : 3;
  const times = [];
  for (let lane = 0; lane < lanes; lane += 1)
    times.push(
      (await ref.call.play({ rollouts: 1, inFlight: 1, shape: SHAPES.endless, prefix: `l${lane}` }))
        .times,
    );
  const around = (call) =>
    median(
      times.flatMap((of) => [...of.slice(Math.max(0, call - 20), Math.min(call + 20, of.length))]),
    );
  const at = [10, 100, 1000].map(around);
  printTable(
    ["put p50, ms, around call", "10", "100", "1000"],
    [["1,000 new tokens each", ...at.map(figure)]],
  );
  check("put p50 at call 1,000 to that at call 10", at[2] / at[0], "<= 1.5", at[2] <= 1.5 * at[0]);
  await ref.kill();
  await store.stop();
}

/** Bytes on disk, freeze, rebuild and drop of one long rollout. */
async function storage() {
  const dir = folder();
  const store = new TokenCaptureStore({ dir });
  const sink = new StoreSink(store);
  const freezes = [];
  const rebuilds = [];
  const drops = [];
  const count = options.quick ? 5 : 15;
  const empty = statSync(join(dir, "capture.db")).size;
  for (let index = 0; index < count; index += 1)
    await record(store, sink, `r${index}`, SHAPES.long, index);
  await store.close();
  const bytes =
    (statSync(join(dir, "capture.db")).size - empty) / count / capturedTokens(SHAPES.long);
  const again = new TokenCaptureStore({ dir });
  for (let index = 0; index < count; index += 1) {
    const row = { _ng_rollout_id: `r${index}`, response: { output: [] } };
    const before = performance.now();
    let frozen = 0;
    const source = {
      freeze: async (id) => {
        const snapshot = await again.freeze(id);
        frozen = performance.now();
        return snapshot;
      },
    };
    const built = await finalizeRolloutTokenCapture(row, source);
    const after = performance.now();
    if (built.masked) throw new Error(JSON.stringify(built.metrics.mask_reasons));
    if (!(await retireRolloutTokenCapture(`r${index}`, again, built)))
      throw new Error("not dropped");
    freezes.push(frozen - before);
    rebuilds.push(after - before);
    drops.push(performance.now() - after);
  }
  await again.close();
  printTable(
    ["60 calls, prompts 4,096 + 600 per call, 300 generated", "value"],
    [
      ["bytes per captured token", figure(bytes)],
      ["freeze, ms (median)", figure(median(freezes))],
      ["freeze and rebuild, ms", figure(median(rebuilds))],
      ["drop, ms", figure(median(drops))],
    ],
  );
  check("bytes per captured token", bytes, "<= 0.30", bytes <= 0.3);
  check("freeze and full rebuild, ms", median(rebuilds), "<= 25", median(rebuilds) <= 25);
}

async function record(store, sink, rolloutId, shape, seed) {
  await store.open(rolloutId);
  for (const entry of callsOf(rolloutId, shape, seed + 1)) await sink.put(entry);
}

/** Freeze and rebuild by number of calls: linear in the tokens of the chain. */
async function builds() {
  const rows = [];
  for (const calls of [10, 100, 1000]) {
    const shape = { ...SHAPES.endless, calls };
    const chainTokens =
      shape.firstPrompt + calls * (shape.perCall + shape.generated) - shape.perCall;
    const times = [];
    let memory = 0;
    for (let round = 0; round < rounds; round += 1) {
      const store = new TokenCaptureStore({ dir: folder() });
      await record(store, new StoreSink(store), "r", shape, 1);
      globalThis.gc?.();
      const before = process.memoryUsage();
      const start = performance.now();
      const snapshot = await store.freeze("r");
      times.push(performance.now() - start);
      globalThis.gc?.();
      const after = process.memoryUsage();
      const held = after.arrayBuffers - before.arrayBuffers;
      const buffers = new Set(snapshot.entries.map((entry) => entry.prompt_token_ids.buffer));
      memory = Math.max(
        memory,
        [...buffers].reduce((sum, buffer) => sum + buffer.byteLength, Math.max(0, held)),
      );
      await store.close();
    }
    rows.push([
      calls,
      chainTokens,
      figure(median(times)),
      figure((1e6 * median(times)) / chainTokens),
      figure(memory / (4 * chainTokens)),
    ]);
    if (calls === 1000)
      check(
        "freeze of 1,000 calls, 1 M tokens, ms",
        median(times),
        "<= 1000",
        median(times) <= 1000,
      );
  }
  printTable(
    ["calls", "tokens of the chain", "freeze, ms", "ns per token", "memory to tokens held"],
    rows,
  );
}
