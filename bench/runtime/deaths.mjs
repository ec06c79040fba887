// How long after an actor's last step every pending call of every holder has its answer.
import { createRuntime } from "corral/runtime";
import { median, spread } from "./measure.mjs";
import { holder, victim } from "./workers/victim.actor.mjs";

const silent = { debug() {}, info() {}, warn() {}, error() {} };
const HANG_TIMEOUT_MS = 500;
const ROUTES = [
  "process.exit",
  "timer throw",
  "unhandled rejection",
  "heap OOM",
  "terminate()",
  "infinite loop",
];

/** @returns `{ [route]: number[] }`: ms. */
export async function deaths(repetitions) {
  const runtime = await createRuntime({ logger: silent });
  const clock = runtime.put(Float64Array.of(0));
  const times = {};
  for (let repetition = 0; repetition < repetitions; repetition++)
    for (const route of ROUTES) {
      const options = { maxConcurrency: 64, maxHeapMiB: 32, hangTimeoutMs: HANG_TIMEOUT_MS };
      const ref = await runtime.spawn(victim, { clock }, options);
      const other = await runtime.spawn(holder, { ref });
      const watching = other.call.watch();
      while (ref.pendingCalls < 1) await new Promise((resolve) => setImmediate(resolve));
      const pending = Array.from({ length: 20 }, () => ref.call.wait());
      if (route === "terminate()") {
        clock[0] = performance.timeOrigin + performance.now();
        void ref.kill();
      } else pending.push(ref.call.die(route));
      await Promise.allSettled([...pending, watching]);
      times[route] ??= [];
      times[route].push(performance.timeOrigin + performance.now() - clock[0]);
      await other.kill();
    }
  await runtime.shutdown();
  return times;
}

/** @returns false when one takes too long. */
export function printDeaths(times) {
  console.log(
    "\nFrom an actor's last step to the last rejected call of 20 in main and one in another actor, ms",
  );
  console.log("\n| death by | median | quartiles | bound | |\n|---|---|---|---|---|");
  let hold = true;
  for (const [route, values] of Object.entries(times)) {
    const bound = route === "infinite loop" ? HANG_TIMEOUT_MS + 1000 : 50;
    const holds = median(values) <= bound;
    hold &&= holds;
    const [low, high] = spread(values);
    console.log(
      `| ${route} | ${median(values).toFixed(1)} | ${low.toFixed(1)} to ${high.toFixed(1)} | ≤ ${bound} | ${holds ? "holds" : "FAILS"} |`,
    );
  }
  return hold;
}
