import { defineActor } from "../../runtime/index.js";
import { AgentHarness } from "./agent-harness.js";
import { type AgentHarnessOptions, parseAgentHarnessOptions } from "./options.js";

/**
 * The actor that runs rollouts of one harness. Give it a `maxConcurrency` of one more than the rollouts it runs at
 * once: `cancelAll` needs a place beside them.
 */
export const agentHarness = defineActor({
  module: import.meta.url,
  name: "agentHarness",
  // Typed as what is given, so that a caller may leave defaults out.
  options: { parse: (value): AgentHarnessOptions => parseAgentHarnessOptions(value) },
  create: (options, ctx) => AgentHarness.start(parseAgentHarnessOptions(options), ctx),
  stop: (actor) => actor.close(),
});
