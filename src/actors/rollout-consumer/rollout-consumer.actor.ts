import { defineActor } from "../../runtime/index.js";
import { parseRolloutConsumerOptions } from "./options.js";
import { RolloutConsumer } from "./rollout-consumer.js";

/**
 * The one writer of a run's rows and journal. Give it a `maxConcurrency` of at least the rollouts that end at once:
 * sealing overlaps, writing is one at a time.
 */
export const rolloutConsumer = defineActor({
  module: import.meta.url,
  name: "rolloutConsumer",
  options: { parse: parseRolloutConsumerOptions },
  create: ({ store, servers, ...options }, ctx) =>
    RolloutConsumer.open({
      ...options,
      source: store?.call ?? null,
      servers: servers.map((server) => server.call),
      logger: ctx.logger,
    }),
  stop: (actor) => actor.close(),
});
