// A generator in another thread, read with backpressure: leaving the loop ends it there.
import { createRuntime, defineActor } from "corral/runtime";

class Source {
  #ended = "no";
  async *squares() {
    try {
      for (let n = 1; ; n++) yield n * n;
    } finally {
      this.#ended = "yes";
    }
  }
  ended() {
    return this.#ended;
  }
}
export const source = defineActor({
  module: import.meta.url,
  name: "source",
  create: () => new Source(),
});

export async function main() {
  const runtime = await createRuntime();
  const ref = await runtime.spawn(source, undefined);
  for await (const square of ref.stream.squares()) {
    console.log(square);
    if (square >= 25) break;
  }
  console.log("finally ran:", await ref.call.ended());
  await runtime.shutdown();
}
if (process.argv[1] === new URL(import.meta.url).pathname) await main();
