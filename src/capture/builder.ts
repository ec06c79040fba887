/**
 * Builds the one trajectory of a rollout from its records. Pure: no store, no clock, no I/O.
 *
 * B1. A build never throws: what cannot be built is a masked build with an error.
 * B2. Masked = error, unresolved retry, roots ≠ 1, chains ≠ 1, an UNRESOLVED boundary in the chain, incomplete, a
 *     final answer outside the chain, an auxiliary chain, or a reason of the caller. Each is named in `mask_reasons`.
 * B3. The build does not depend on the order of the entries.
 * B4. `created_at` chooses only which chain a masked build shows: earliest root, then smallest call id.
 * B5. A terminal chooses the chain that is shown and may mask; it never unmasks.
 * B6. A chain that ends in an auxiliary call is masked unless that call gave the final answer: when the task's own
 *     calls failed, what is left must not earn the task's reward.
 */
import { type CallGraph, type CallNode, chainOf, compareIds, linkCalls } from "./call-graph.js";
import { chainMetrics, type MaskReason, type TokenCaptureMetrics } from "./metrics.js";
import { projectChain, type RebuiltResponse } from "./projection.js";
import { type BuildError, findProblem } from "./record-problems.js";
import type { TokenEntry } from "./records.js";
import { attributeTerminal, type Terminal } from "./terminal.js";

export interface BuildOptions {
  readonly rolloutId: string;
  /** The store lost a call. Default false. */
  readonly incomplete?: boolean;
  readonly incompleteReasons?: readonly string[];
  readonly failedCalls?: number;
  readonly abortedCalls?: number;
  readonly terminal?: Terminal;
  readonly extraMaskReasons?: readonly MaskReason[];
}

export interface TrajectoryBuild {
  readonly rolloutId: string;
  /** The chain that is shown, root first; empty when there is none. The records' own arrays, not copies. */
  readonly chain: readonly TokenEntry[];
  readonly metrics: TokenCaptureMetrics;
  readonly masked: boolean;
  readonly unresolvedRetries: readonly string[];
  readonly error?: BuildError;
}

/** Chains the recorded calls of one rollout. Time linear in tokens. */
export function buildTrajectory(
  entries: readonly TokenEntry[],
  options: BuildOptions,
): TrajectoryBuild {
  const problem = findProblem(entries, options.rolloutId);
  if (problem !== undefined) return failedBuild(entries.length, options, problem);
  const calls = [...new Map(entries.map((entry) => [entry.model_call_id, entry])).values()];
  const graph = linkCalls(calls.filter((entry) => entry.generation_token_ids.length > 0));
  if (graph.leaves.length === 0) {
    const message = "no chain is free of quarantined calls and holds a generated token";
    return failedBuild(calls.length, options, { code: "NO_SAFE_CHAIN", message });
  }
  const attribution = attributeTerminal(options.terminal, calls);
  const chain = chooseChain(graph, attribution.call_id);
  const inChain = chain.some((node) => node.entry.model_call_id === attribution.call_id);
  if (inChain) attribution.chain = "delivered";
  const delivered = chain.map((node) => node.entry);
  const reasons = [
    ...chainReasons(graph, chain),
    ...auxiliaryReasons(delivered, attribution.call_id),
    ...callerReasons(options),
  ];
  if (attribution.call_id !== null && !inChain) {
    reasons.push({ code: "TERMINAL_NOT_DELIVERED", detail: attribution.call_id });
  }
  return {
    rolloutId: options.rolloutId,
    chain: delivered,
    masked: reasons.length > 0,
    unresolvedRetries: graph.unresolvedRetries,
    metrics: {
      n_calls: calls.length,
      ...chainMetrics(calls, graph, delivered, attribution),
      ...callMetrics(options),
      mask_reasons: reasons,
      warnings: [],
    },
  };
}

/** The Responses payload of a build, null when it has no chain. Arrays are copied: full form is long. */
export function rebuildResponse(build: TrajectoryBuild): RebuiltResponse | null {
  return build.chain.length === 0 ? null : projectChain(build.rolloutId, build.chain);
}

/** A masked build without a chain. */
export function failedBuild(
  callCount: number,
  options: BuildOptions,
  error: BuildError,
): TrajectoryBuild {
  const reason = { code: error.code, detail: error.message };
  return {
    rolloutId: options.rolloutId,
    chain: [],
    masked: true,
    unresolvedRetries: [],
    error,
    metrics: {
      n_calls: callCount,
      ...callMetrics(options),
      error: `${error.code}: ${error.message}`,
      mask_reasons: [reason, ...callerReasons(options)],
      warnings: [],
    },
  };
}

/** B4, among the chains that hold the attributed call; among all when none does. */
function chooseChain(graph: CallGraph, callId: string | null): CallNode[] {
  const holds = new Set<CallNode>();
  // Parents come before their children, so one pass marks all that continues the call.
  for (const node of graph.nodes) {
    const continues = node.parent !== null && holds.has(node.parent);
    if (continues || node.entry.model_call_id === callId) holds.add(node);
  }
  const holding = graph.leaves.filter((leaf) => holds.has(leaf));
  const choice = holding.length > 0 ? holding : graph.leaves;
  // Leaves of one root keep their order: shortest prompt first.
  return [...choice]
    .sort((a, b) => compareRoots(a.root, b.root))
    .slice(0, 1)
    .flatMap(chainOf);
}

function compareRoots({ entry: a }: CallNode, { entry: b }: CallNode): number {
  return a.created_at - b.created_at || compareIds(a.model_call_id, b.model_call_id);
}

function chainReasons(graph: CallGraph, chain: readonly CallNode[]): MaskReason[] {
  const reasons: MaskReason[] = [];
  if (graph.unresolvedRetries.length > 0) {
    reasons.push({ code: "UNRESOLVED_RETRY", detail: graph.unresolvedRetries.join(" ") });
  }
  if (graph.roots.length !== 1) {
    reasons.push({ code: "MULTIPLE_ROOTS", detail: String(graph.roots.length) });
  }
  if (graph.leaves.length !== 1) {
    reasons.push({ code: "MULTIPLE_CHAINS", detail: String(graph.leaves.length) });
  }
  for (const { boundary, entry } of chain) {
    if (boundary === undefined) continue;
    reasons.push({ code: "UNRESOLVED_PARENT", detail: `${entry.model_call_id}: ${boundary}` });
  }
  return reasons;
}

/** What a harness asks for beside its task. */
const AUXILIARY_PURPOSES = new Set(["title", "subagent", "compaction"]);

/** B6. */
function auxiliaryReasons(chain: readonly TokenEntry[], answerId: string | null): MaskReason[] {
  const last = chain.at(-1);
  if (last?.purpose === undefined || !AUXILIARY_PURPOSES.has(last.purpose)) return [];
  if (last.model_call_id === answerId) return [];
  return [{ code: "AUXILIARY_CHAIN", detail: `${last.model_call_id}: ${last.purpose}` }];
}

function callerReasons(options: BuildOptions): MaskReason[] {
  const reasons = [...(options.extraMaskReasons ?? [])];
  if (options.incomplete === true) {
    const detail = (options.incompleteReasons ?? []).join(" ");
    reasons.push(
      detail === "" ? { code: "CAPTURE_INCOMPLETE" } : { code: "CAPTURE_INCOMPLETE", detail },
    );
  }
  return reasons;
}

function callMetrics(options: BuildOptions) {
  return {
    failed_calls: options.failedCalls ?? 0,
    aborted_calls: options.abortedCalls ?? 0,
    ...(options.incomplete === true ? { capture_incomplete: true as const } : {}),
  };
}
