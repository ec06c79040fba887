// Throughput and latency of puts through the actor, as model-server workers send them.
import { captureStore } from "corral/actors";
import { probeDisk } from "./disk.mjs";
import { figure, median, percentile, printTable } from "./figures.mjs";
import { SHAPES } from "./workload.mjs";
import { writer } from "./writer.actor.mjs";

/** Appends a second below which the disk is busy with something else, or slow. */
const BUSY_DISK = 1000;

/** One store actor with so many workers; stopped when `use` ends. */
async function withWorkers({ runtime, folder }, workers, use) {
  const store = await runtime.spawn(captureStore, { dir: folder() }, { maxConcurrency: 256 });
  const indices = Array.from({ length: workers }, (_, index) => index);
  const refs = await Promise.all(indices.map((index) => runtime.spawn(writer, { store, index })));
  // Loads code and warms the compiler, as a server that has run for a minute.
  const warm = { rollouts: 8, inFlight: 4, shape: SHAPES.short, prefix: "warm" };
  await Promise.all(refs.map((ref) => ref.call.play(warm)));
  const result = await use(refs);
  await Promise.all(refs.map((ref) => ref.kill()));
  await store.stop();
  return result;
}

async function round(bench, { workers, inFlight, shape, rollouts }) {
  return withWorkers(bench, workers, async (refs) => {
    const before = probeDisk(bench.root);
    const cpu = process.cpuUsage();
    const start = performance.now();
    const load = { rollouts: Math.ceil(rollouts / workers), inFlight, shape, prefix: "r" };
    const played = await Promise.all(refs.map((ref) => ref.call.play(load)));
    const seconds = (performance.now() - start) / 1000;
    const { user, system } = process.cpuUsage(cpu);
    const after = probeDisk(bench.root);
    const times = played.flatMap((of) => [...of]);
    return {
      disk: (before.perSecond + after.perSecond) / 2,
      diskP50: (before.p50 + after.p50) / 2,
      perSecond: times.length / seconds,
      cpuMs: (user + system) / 1000 / times.length,
      p50: percentile(times, 50),
      p99: percentile(times, 99),
    };
  });
}

const LOADS = [
  ["short", SHAPES.short, 240],
  ["long", { ...SHAPES.long, calls: 30 }, 16],
];

export async function puts(bench) {
  const rows = [];
  const cases = LOADS.flatMap(([name, shape, rollouts]) =>
    [1, 4].flatMap((workers) =>
      [1, 8].map((inFlight) => ({ name, shape, rollouts, workers, inFlight })),
    ),
  );
  for (const one of cases) {
    const made = [];
    const rollouts = bench.quick ? one.rollouts / 4 : one.rollouts;
    for (let n = 0; n < bench.rounds; n += 1) made.push(await round(bench, { ...one, rollouts }));
    const mid = (pick) => median(made.map(pick));
    const found = {
      disk: mid((m) => m.disk),
      perSecond: mid((m) => m.perSecond),
      ratio: mid((m) => m.perSecond / m.disk),
      cpuMs: mid((m) => m.cpuMs),
      p50: mid((m) => m.p50),
      p99: mid((m) => m.p99),
      p50Ratio: mid((m) => m.p50 / m.diskP50),
      p99Ratio: mid((m) => m.p99 / m.diskP50),
    };
    rows.push([one.name, one.workers, one.inFlight, ...Object.values(found).map(figure)]);
    judge(bench, one, found);
  }
  printTable(
    [
      "prompts",
      "workers",
      "in flight each",
      "disk appends/s",
      "puts/s",
      "to disk",
      "CPU ms/put",
      "p50 ms",
      "p99 ms",
      "p50 to disk's",
      "p99 to disk's p50",
    ],
    rows,
  );
}

function judge(bench, { name, workers, inFlight }, found) {
  if (name !== "short") return;
  if (workers * inFlight === 32) {
    const isBusy = found.disk < BUSY_DISK;
    const allowed = isBusy ? 4 : 0.4;
    const why = isBusy ? "the disk is the bound" : "the processor is the bound";
    bench.check(`puts/s, 32 in flight, to appends/s (${why})`, found.ratio, ">=", allowed);
  }
  if (workers * inFlight === 1) {
    const idle = found.disk >= BUSY_DISK;
    const why = idle ? "" : " (the disk is not idle)";
    bench.check(`put p50, one in flight, to fdatasync p50${why}`, found.p50Ratio, "<=", 4, idle);
    bench.check(`put p99, one in flight, to fdatasync p50${why}`, found.p99Ratio, "<=", 25, idle);
  }
}

/** The same new tokens cost the same, however long the conversation has become. */
export async function longRollout(bench) {
  const at = [100, 500, 1000];
  const found = await withWorkers(bench, 1, async ([ref]) => {
    const lanes = [];
    for (let lane = 0; lane < bench.rounds; lane += 1)
      lanes.push(await ref.call.compare({ prefix: `long-${lane}`, at, pairs: 40 }));
    return at.map((_, index) => lanes.flatMap((lane) => lane[index]));
  });
  const medians = (what) =>
    found.map((pairs) => [0, 1].map((side) => median(pairs.map((pair) => pair[side][what]))));
  const [begins, made] = [medians("beginMs"), medians("putMs")];
  printTable(
    ["p50, ms, 1,000 new tokens each", ...at.map((call) => `call ${call}`)],
    [
      ["put at that call", ...made.map(([late]) => figure(late))],
      ["put at call 10, in turn with it", ...made.map(([, early]) => figure(early))],
      ["intent at that call", ...begins.map(([late]) => figure(late))],
      ["intent at call 10, in turn with it", ...begins.map(([, early]) => figure(early))],
    ],
  );
  const [late, early] = made.at(-1);
  bench.check("put p50 at call 1,000 to that at call 10", late / early, "<=", 1.5);
}
