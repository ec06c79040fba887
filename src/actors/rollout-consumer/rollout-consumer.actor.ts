import type { TokenSource } from "../../capture/index.js";
import { defineActor } from "../../runtime/index.js";
import { buildUserClass } from "../user-class.js";
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
  create: async ({ store, source: userClass, servers, ...options }, ctx) => {
    const own =
      userClass &&
      (await buildUserClass<TokenSource>(userClass, "source", ["freeze", "drop", "close"]));
    return RolloutConsumer.open({
      ...options,
      source: own ?? store?.call ?? null,
      servers: servers.map((server) => server.call),
      logger: ctx.logger,
      ...(own && { onClose: () => own.close() }),
    });
  },
  stop: (actor) => actor.close(),
});
