import { defineActor } from "../../runtime/index.js";
import { AgentHarness } from "./agent-harness.js";
import { type AgentHarnessOptions, parseAgentHarnessOptions } from "./options.js";

/** The actor that runs rollouts of one harness, `maxConcurrency` at once. A cancel never waits behind them. */
export const agentHarness = defineActor({
  module: import.meta.url,
  name: "agentHarness",
  groups: { control: 1024 },
  methods: { cancel: { group: "control" }, cancelAll: { group: "control" } },
  // Typed as what is given, so that a caller may leave defaults out.
  options: { parse: (value): AgentHarnessOptions => parseAgentHarnessOptions(value) },
  create: (options, ctx) => AgentHarness.start(parseAgentHarnessOptions(options), ctx),
  stop: (actor) => actor.close(),
});
