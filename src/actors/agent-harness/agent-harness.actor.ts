import { defineActor } from "../../runtime/index.js";
import { AgentHarness } from "./agent-harness.js";
import { parseAgentHarnessOptions } from "./options.js";

/**
 * The actor that runs rollouts of one harness. Give it a `maxConcurrency` of one more than the rollouts it runs at
 * once: `cancelAll` needs a place beside them.
 */
export const agentHarness = defineActor({
  module: import.meta.url,
  name: "agentHarness",
  options: { parse: parseAgentHarnessOptions },
  create: (options, ctx) => AgentHarness.start(options, ctx),
  stop: (actor) => actor.close(),
});
