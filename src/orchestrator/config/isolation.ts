/**
 * A model can write any command, and a command-line harness runs what it writes. Only the embedded policy cannot.
 *
 * N1. With any other engine such a harness starts in isolation, or because its config says in so many words that it
 *     needs none. No default decides that.
 */
import { ConfigError } from "../errors.js";
import type { AgentConfig, CorralConfig } from "./schema.js";

type Engines = Pick<CorralConfig, "responses_api_agents" | "responses_api_models">;

/** @throws INVALID_VALUE naming the agent that says nothing of its isolation. */
export function checkIsolation(
  { responses_api_agents: agents, responses_api_models: models }: Engines,
  isEmbedded = (model: string) => models[model]?.engine.kind === "embedded",
): void {
  for (const [name, agent] of Object.entries(agents)) {
    if (!runsCommands(agent) || agent.isolation !== undefined || isEmbedded(agent.model)) continue;
    throw new ConfigError(
      "INVALID_VALUE",
      `responses_api_agents.${name}.isolation`,
      `is missing, and its model ${agent.model} is no embedded policy, so it can write any command; allowed: "bwrap", or "none" where that may run with your rights`,
    );
  }
}

/** Agents whose model's commands run with the rights of whoever started the run. */
export function unisolated({
  responses_api_agents: agents,
  responses_api_models: models,
}: Engines) {
  return Object.entries(agents).flatMap(([name, agent]) => {
    const isOpen = runsCommands(agent) && (agent.isolation ?? "none") === "none";
    return isOpen && models[agent.model]?.engine.kind !== "embedded" ? [name] : [];
  });
}

/** A function harness is the user's own code, which isolates what it starts. */
function runsCommands(agent: AgentConfig): agent is Exclude<AgentConfig, { kind: "function" }> {
  return agent.kind !== "function";
}
