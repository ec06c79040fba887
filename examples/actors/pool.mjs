// Work spread over actors: a pool for single pieces, a group for sticky ones.
import { ActorPool, createRuntime, defineActor } from "corral/runtime";

class Scorer {
  constructor(ctx) {
    this.name = ctx.name;
  }
  score(text) {
    return text.length;
  }
  who() {
    return this.name;
  }
}
export const scorer = defineActor({
  module: import.meta.url,
  name: "scorer",
  create: (_options, ctx) => new Scorer(ctx),
});

export async function main() {
  const runtime = await createRuntime();
  const group = await runtime.spawnGroup(scorer, undefined, { numWorkers: 2, name: "scorer" });
  const pool = new ActorPool(group.members);
  const scores = [];
  for await (const score of pool.map(
    (ref, text) => ref.call.score(text),
    ["a", "bb", "ccc", "dddd"],
  ))
    scores.push(score);
  console.log("scores:", scores);
  const names = await Promise.all([1, 2, 3].map(() => group.forKey("rollout-7").call.who()));
  console.log("one key, one actor:", new Set(names).size === 1);
  await runtime.shutdown();
}
if (process.argv[1] === new URL(import.meta.url).pathname) await main();
