// How long after an actor's last step every pending call of every holder has its answer, beside how long a raw
// thread takes to tell its parent of the same death: V8 tries hard before it gives up a heap.
import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { createRuntime } from "corral/runtime";
import { median, spread } from "./measure.mjs";
import { holder, victim } from "./workers/victim.actor.mjs";

const silent = { debug() {}, info() {}, warn() {}, error() {} };
const HANG_TIMEOUT_MS = 500;
const HEAP_MIB = 32;
const HANG = "infinite loop";
const ROUTES = [
  "process.exit",
  "timer throw",
  "unhandled rejection",
  "heap OOM",
  "terminate()",
  HANG,
];
const nowMs = () => performance.timeOrigin + performance.now();

async function rawDeath(route, clock) {
  const worker = new Worker(new URL("./workers/die.mjs", import.meta.url), {
    workerData: { dieBy: route, clock },
    resourceLimits: { maxOldGenerationSizeMb: HEAP_MIB },
  });
  worker.on("error", () => {});
  const exit = new Promise((resolve) => worker.on("exit", resolve));
  if (route === "terminate()") {
    await once(worker, "online");
    clock[0] = nowMs();
    void worker.terminate();
  }
  await exit;
  return nowMs() - clock[0];
}

async function actorDeath(runtime, route, clock) {
  const options = { maxConcurrency: 64, maxHeapMiB: HEAP_MIB, hangTimeoutMs: HANG_TIMEOUT_MS };
  const ref = await runtime.spawn(victim, { clock }, options);
  const other = await runtime.spawn(holder, { ref });
  const watching = other.call.watch();
  while (ref.pendingCalls < 1) await new Promise((resolve) => setImmediate(resolve));
  const pending = Array.from({ length: 20 }, () => ref.call.wait());
  if (route === "terminate()") {
    clock[0] = nowMs();
    void ref.kill();
  } else pending.push(ref.call.die(route));
  await Promise.allSettled([...pending, watching]);
  const tookMs = nowMs() - clock[0];
  await other.kill();
  return tookMs;
}

/** @returns `{ [route]: { actor: number[], raw: number[] } }`: ms, by repetition. */
export async function deaths(repetitions) {
  const runtime = await createRuntime({ logger: silent });
  const clock = runtime.put(Float64Array.of(0));
  const times = Object.fromEntries(ROUTES.map((route) => [route, { actor: [], raw: [] }]));
  for (let repetition = 0; repetition < repetitions; repetition++)
    for (const route of ROUTES) {
      times[route].actor.push(await actorDeath(runtime, route, clock));
      times[route].raw.push(route === HANG ? 0 : await rawDeath(route, clock));
    }
  await runtime.shutdown();
  return times;
}

/** @returns false when one takes too long. */
export function printDeaths(times) {
  console.log(
    "\nms from the last step to the last rejected call, of 20 in main and one in another actor; raw: to the thread's exit event",
  );
  console.log(
    "\n| death by | actor [quartiles] | raw | actor − raw | bound | |\n|---|---|---|---|---|---|",
  );
  let hold = true;
  for (const [route, { actor, raw }] of Object.entries(times)) {
    const bound = route === HANG ? HANG_TIMEOUT_MS + 1000 : 50;
    const own = median(actor.map((value, index) => value - raw[index]));
    hold &&= own <= bound;
    const [low, high] = spread(actor).map((value) => value.toFixed(1));
    console.log(
      `| ${route} | ${median(actor).toFixed(1)} [${low}, ${high}] | ${median(raw).toFixed(1)} | ${own.toFixed(1)} | ≤ ${bound} | ${own <= bound ? "holds" : "FAILS"} |`,
    );
  }
  return hold;
}
