/**
 * Shares the calls of a tree among trajectories, so that each sampled token is trained at most once.
 *
 * T1. Each chain that is free of quarantined calls is one trajectory. It owns the calls from the first that no earlier
 *     trajectory owns; what lies before is its context and is trained there.
 * T2. The order is by evidence, then by ids: final answer, decided before undecided, main before other purposes.
 *     Times have no part in it.
 */
import { type CallGraph, type CallNode, compareIds } from "./call-graph.js";
import type { CallPurpose } from "./purpose.js";

/** The owned calls of every trajectory, in order; the trajectory to show first. Linear in calls (sorting apart). */
export function shareCalls(
  graph: CallGraph,
  finalCallId: string | null,
  purposes: ReadonlyMap<string, CallPurpose>,
): CallNode[][] {
  const answers = nodesBelow(graph, finalCallId);
  const rank = (leaf: CallNode) => [
    answers.has(leaf) ? 0 : 1,
    leaf.undecided ? 1 : 0,
    purposes.get(leaf.entry.model_call_id) === "main" ? 0 : 1,
  ];
  const leaves = graph.leaves.map((leaf) => ({ leaf, rank: rank(leaf) }));
  leaves.sort((a, b) => compareRanks(a.rank, b.rank) || compareLeaves(a.leaf, b.leaf)); // T2
  const owners = new Set<CallNode>();
  return leaves.map(({ leaf }) => {
    const owned: CallNode[] = [];
    for (let node: CallNode | null = leaf; node !== null && !owners.has(node); node = node.parent) {
      owned.push(node);
      owners.add(node);
    }
    return owned.reverse(); // T1
  });
}

/** The call itself and every call that continues it. */
export function nodesBelow(graph: CallGraph, callId: string | null): ReadonlySet<CallNode> {
  const below = new Set<CallNode>();
  // Parents come before their children, so one pass marks all that continues the call.
  for (const node of graph.nodes) {
    const continues = node.parent !== null && below.has(node.parent);
    if (continues || node.entry.model_call_id === callId) below.add(node);
  }
  return below;
}

function compareRanks(a: readonly number[], b: readonly number[]): number {
  return a.map((rank, index) => rank - (b[index] ?? 0)).find((difference) => difference !== 0) ?? 0;
}

function compareLeaves(a: CallNode, b: CallNode): number {
  return (
    compareIds(a.root.entry.model_call_id, b.root.entry.model_call_id) ||
    a.entry.prompt_token_ids.length - b.entry.prompt_token_ids.length ||
    compareIds(a.entry.model_call_id, b.entry.model_call_id)
  );
}
