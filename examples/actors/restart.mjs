// An actor that crashes and comes back; its state does not, so it is read from where it is kept.
import { createRuntime, defineActor } from "corral/runtime";

class Flaky {
  constructor(ctx) {
    this.restartCount = ctx.restartCount;
  }
  risky() {
    if (this.restartCount < 2) process.exit(1);
    return `answered by restart ${this.restartCount}`;
  }
}
export const flaky = defineActor({
  module: import.meta.url,
  name: "flaky",
  methods: { risky: { idempotent: true } }, // safe to run again: the call is retried over restarts
  create: (_options, ctx) => new Flaky(ctx),
});

export async function main() {
  const silent = { debug() {}, info() {}, warn() {}, error() {} };
  const runtime = await createRuntime({ logger: silent });
  const events = runtime.events();
  const ref = await runtime.spawn(flaky, undefined, { maxRestarts: 3, backoffMs: [1, 10] });
  console.log(await ref.call.risky());
  await runtime.shutdown();
  for await (const { state, report } of events) console.log(state, report?.cause ?? "");
}
if (process.argv[1] === new URL(import.meta.url).pathname) await main();
