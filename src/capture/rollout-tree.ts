/** The calls of a rollout as a tree, for people: purposes, lengths, and what became of each. */
import type { BuildOptions, TrajectoryBuild } from "./build.js";
import { buildTrajectory } from "./builder.js";
import type { CallNode } from "./call-graph.js";
import { linkRollout } from "./link-rollout.js";
import type { CallPurpose } from "./purpose.js";
import type { TokenEntry } from "./records.js";

export interface TreeCall {
  readonly callId: string;
  readonly parentId: string | null;
  readonly purpose: CallPurpose;
  /** Tokens of the prompt, and how many of them the parent did not have. */
  readonly promptTokens: number;
  readonly newTokens: number;
  readonly generatedTokens: number;
  readonly finishReason: string | undefined;
  /** `shown`: in the trajectory that a row shows. `chain`: in another sound one. */
  readonly state: "shown" | "chain" | "superseded" | "quarantined" | "empty";
  /** Why what it continues is not known. */
  readonly boundary: string | undefined;
}

export interface RolloutTree {
  /** A parent comes before its children, and the calls of a chain follow each other. */
  readonly calls: readonly TreeCall[];
  readonly build: TrajectoryBuild;
}

export function rolloutTree(entries: readonly TokenEntry[], options: BuildOptions): RolloutTree {
  const build = buildTrajectory(entries, options);
  const { calls, graph } = linkRollout(entries, options);
  const shown = new Set(build.chain.map((entry) => entry.model_call_id));
  const nodes = new Map(graph.nodes.map((node) => [node.entry.model_call_id, node]));
  const rows = calls.map((entry): TreeCall => {
    const node = nodes.get(entry.model_call_id);
    const parent = node?.parent?.entry;
    const known =
      parent === undefined
        ? 0
        : parent.prompt_token_ids.length + parent.generation_token_ids.length;
    return {
      callId: entry.model_call_id,
      parentId: parent?.model_call_id ?? null,
      purpose: build.purposes.get(entry.model_call_id) ?? "main",
      promptTokens: entry.prompt_token_ids.length,
      newTokens: entry.prompt_token_ids.length - known,
      generatedTokens: entry.generation_token_ids.length,
      finishReason: entry.finish_reason,
      state: stateOf(node, shown.has(entry.model_call_id)),
      boundary: node?.boundary,
    };
  });
  return { calls: depthFirst(rows), build };
}

function stateOf(node: CallNode | undefined, isShown: boolean): TreeCall["state"] {
  if (node === undefined) return "empty";
  if (node.superseded) return "superseded";
  if (node.lost) return "quarantined";
  return isShown ? "shown" : "chain";
}

/** Without recursion: a chain may be thousands of calls long. */
function depthFirst(calls: readonly TreeCall[]): TreeCall[] {
  const below = new Map<string | null, TreeCall[]>();
  for (const call of calls) {
    const siblings = below.get(call.parentId);
    if (siblings === undefined) below.set(call.parentId, [call]);
    else siblings.push(call);
  }
  const ordered: TreeCall[] = [];
  const pending = [...(below.get(null) ?? [])].reverse();
  for (let call = pending.pop(); call !== undefined; call = pending.pop()) {
    ordered.push(call);
    pending.push(...[...(below.get(call.callId) ?? [])].reverse());
  }
  return ordered;
}
