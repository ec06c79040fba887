import type { BuildOptions } from "./build.js";
import { type CallGraph, linkCalls } from "./call-graph.js";
import type { TerminalAttribution } from "./metrics.js";
import type { TokenEntry } from "./records.js";
import { attributeTerminal } from "./terminal.js";

export interface LinkedRollout {
  /** Each call once, in no order. */
  readonly calls: readonly TokenEntry[];
  /** Of the calls that generated tokens. */
  readonly graph: CallGraph;
  readonly attribution: TerminalAttribution;
}

/** The calls of a rollout in their trees, with all the evidence that the options hold. Contract: sound records. */
export function linkRollout(
  entries: readonly TokenEntry[],
  { terminal, undeliveredCallIds }: BuildOptions,
): LinkedRollout {
  const calls = [...new Map(entries.map((entry) => [entry.model_call_id, entry])).values()];
  const attribution = attributeTerminal(terminal, calls);
  const evidence = { undelivered: new Set(undeliveredCallIds), finalCallId: attribution.call_id };
  const withTokens = calls.filter((entry) => entry.generation_token_ids.length > 0);
  return { calls, graph: linkCalls(withTokens, evidence), attribution };
}
