// One actor, typed calls, errors that keep their class and code. Run: node examples/actors/counter.mjs
import { createRuntime, defineActor } from "corral/runtime";

class Counter {
  #n = 0;
  increment(by = 1) {
    if (!Number.isInteger(by))
      throw Object.assign(new RangeError(`by is ${by}`), { code: "BAD_STEP" });
    this.#n += by;
    return this.#n;
  }
}
export const counter = defineActor({
  module: import.meta.url,
  name: "counter",
  create: () => new Counter(),
});

export async function main() {
  const runtime = await createRuntime();
  const ref = await runtime.spawn(counter, undefined, { name: "main" });
  console.log("increments:", await Promise.all([1, 2, 3].map((by) => ref.call.increment(by))));
  await ref.call.increment(0.5).catch((error) => console.log("refused:", error.name, error.code));
  console.log("stopped:", (await ref.stop()).cause);
  await runtime.shutdown();
}
if (process.argv[1] === new URL(import.meta.url).pathname) await main();
