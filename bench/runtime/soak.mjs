// npm run soak [-- cycles calls]: does anything grow? Spawns and stops actors, and calls one, many times over.
import { readdirSync } from "node:fs";
import { createRuntime } from "corral/runtime";
import { bench } from "./workers/bench.actor.mjs";

const cycles = Number(process.argv[2] ?? 10_000);
const calls = Number(process.argv[3] ?? 1_000_000);
const AT_ONCE = 4;
const IN_FLIGHT = 1000;
const SAMPLES = 40;
const silent = { debug() {}, info() {}, warn() {}, error() {} };
const runtime = await createRuntime({ logger: silent });
const warnings = [];
process.on("warning", (warning) => warnings.push(warning.message));

const turn = () => new Promise((resolve) => setTimeout(resolve, 50));
async function sample() {
  await turn();
  globalThis.gc();
  const { heapUsed, external, rss } = process.memoryUsage();
  const resources = process.getActiveResourcesInfo();
  return {
    heap: heapUsed + external,
    rss,
    threads: readdirSync("/proc/self/task").length,
    ports: resources.filter((name) => name === "MessagePort").length,
    resources: resources.length,
  };
}
/** Least-squares slope of the last half, per step. */
function slope(values, stepsPerSample) {
  const half = values.slice(values.length >> 1);
  const mean = half.reduce((sum, value) => sum + value, 0) / half.length;
  const middle = (half.length - 1) / 2;
  let above = 0;
  let below = 0;
  half.forEach((value, index) => {
    above += (index - middle) * (value - mean);
    below += (index - middle) ** 2;
  });
  return above / below / stepsPerSample;
}
async function soak(name, steps, stepsAtOnce, step) {
  const samples = [];
  const every = Math.max(1, Math.round(steps / stepsAtOnce / SAMPLES));
  const startedAt = performance.now();
  for (let round = 0; round * stepsAtOnce < steps; round++) {
    await step();
    if (round % every === 0) {
      samples.push(await sample());
      process.stderr.write(`\r${name} ${round * stepsAtOnce}/${steps}  `);
    }
  }
  process.stderr.write("\n");
  const seconds = (performance.now() - startedAt) / 1000;
  const of = (key) => samples.map((each) => each[key]);
  const middle = samples[samples.length >> 1];
  const last = samples.at(-1);
  const heapSlope = slope(of("heap"), every * stepsAtOnce);
  const rssSlope = slope(of("rss"), every * stepsAtOnce);
  console.log(
    `${name}: ${steps} in ${seconds.toFixed(0)} s; threads ${middle.threads} to ${last.threads}, ports ${middle.ports} to ${last.ports}, resources ${middle.resources} to ${last.resources}; slope over the last half: heap ${heapSlope.toFixed(1)} B, resident ${rssSlope.toFixed(1)} B a step`,
  );
  const grew = ["threads", "ports", "resources"].filter((key) => last[key] > middle[key]);
  return { grew, heapSlope, rssSlope };
}

const spawned = await soak("spawn/stop cycles", cycles, AT_ONCE, async () => {
  const refs = await Promise.all(
    Array.from({ length: AT_ONCE }, () => runtime.spawn(bench, undefined)),
  );
  await Promise.all(refs.map((ref) => ref.call.echo({ n: 1 })));
  for await (const item of refs[0].stream.count(100)) if (item === 20) break;
  await Promise.all(refs.map((ref, index) => (index % 2 === 0 ? ref.stop() : ref.kill())));
});
const ref = await runtime.spawn(bench, undefined, { maxConcurrency: IN_FLIGHT });
const called = await soak("calls", calls, IN_FLIGHT, () =>
  Promise.all(Array.from({ length: IN_FLIGHT }, (_, index) => ref.call.echo(index))),
);
await runtime.shutdown();
const holds =
  [...spawned.grew, ...called.grew, ...warnings].length === 0 &&
  Math.max(spawned.heapSlope, spawned.rssSlope) <= 1024 &&
  called.heapSlope <= 1;
console.log(holds ? "nothing grows" : `GROWS: ${[...spawned.grew, ...called.grew, ...warnings]}`);
process.exitCode = holds ? 0 : 1;
