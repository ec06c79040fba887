/**
 * Builds the one trajectory of a rollout from its records. Pure: no store, no clock, no I/O.
 *
 * B1. A build never throws: what cannot be built is a masked build with an error.
 * B2. Masked = error, unresolved retry, roots ≠ 1, chains ≠ 1, an UNRESOLVED boundary in the chain, incomplete, a
 *     final answer outside the chain, or a reason of the caller. Each is named in `mask_reasons`.
 * B3. The build does not depend on the order of the entries.
 * B4. `created_at` chooses only which chain a masked build shows: earliest root, then smallest call id.
 * B5. A terminal chooses the chain that is shown and may mask; it never unmasks.
 */
import { type CallGraph, type CallNode, chainOf, compareIds, linkCalls } from "./call-graph.js";
import { chainMetrics, type MaskReason, type TokenCaptureMetrics } from "./metrics.js";
import { projectChain, type RebuiltResponse } from "./projection.js";
import { SCHEMA_VERSION, type TokenEntry } from "./records.js";
import { attributeTerminal, type Terminal } from "./terminal.js";
import { sameTokens } from "./token-views.js";

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

/** Why there is no chain: `NO_ENTRIES`, `NO_SAFE_CHAIN`, `SCHEMA_TOO_NEW`, `RECORD_INVALID`, `RECORD_CONFLICT`. */
export interface BuildError {
  readonly code: string;
  readonly message: string;
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
  const reasons = [...chainReasons(graph, chain), ...callerReasons(options)];
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

/** The first chain that holds the attributed call; else the one whose root is earliest. */
function chooseChain(graph: CallGraph, callId: string | null): CallNode[] {
  const ordered = [...graph.leaves].sort((a, b) => compareRoots(a.root, b.root));
  const earliest = ordered.slice(0, 1).flatMap(chainOf);
  const wanted = graph.nodes.find((node) => node.entry.model_call_id === callId);
  // A chain that ends with the answer comes before one that goes on after it.
  if (wanted === undefined || wanted.lost) return earliest;
  if (wanted.childCount === 0) return chainOf(wanted);
  return ordered.map(chainOf).find((chain) => chain.includes(wanted)) ?? earliest;
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

/** The first thing, in call-id order, that makes the records unfit to chain. */
function findProblem(entries: readonly TokenEntry[], rolloutId: string): BuildError | undefined {
  if (entries.length === 0) return { code: "NO_ENTRIES", message: "no call was recorded" };
  const byId = new Map<string, TokenEntry>();
  const sorted = [...entries].sort((a, b) => compareIds(a.model_call_id, b.model_call_id));
  for (const entry of sorted) {
    const problem = entryProblem(entry, rolloutId, byId.get(entry.model_call_id));
    if (problem !== undefined) return problem;
    byId.set(entry.model_call_id, entry);
  }
  return undefined;
}

function entryProblem(
  entry: TokenEntry,
  rolloutId: string,
  twin: TokenEntry | undefined,
): BuildError | undefined {
  const call = `call ${entry.model_call_id}`;
  if (entry.schema_version > SCHEMA_VERSION) {
    const message = `${call}: schema_version ${String(entry.schema_version)}, this build reads up to ${String(SCHEMA_VERSION)}`;
    return { code: "SCHEMA_TOO_NEW", message };
  }
  if (entry.rollout_id !== rolloutId) {
    return { code: "RECORD_INVALID", message: `${call}: belongs to rollout ${entry.rollout_id}` };
  }
  const { generation_token_ids: ids, generation_log_probs: logProbs } = entry;
  if (ids.length !== logProbs.length || !logProbs.every(Number.isFinite)) {
    const message = `${call}: ${String(ids.length)} ids need as many finite log probabilities`;
    return { code: "RECORD_INVALID", message };
  }
  if (twin !== undefined && !sameRecord(entry, twin)) {
    return { code: "RECORD_CONFLICT", message: `${call}: recorded twice with unlike payloads` };
  }
  return undefined;
}

/** A transport that delivers at least once may repeat a record; it must be the same one. */
function sameRecord(a: TokenEntry, b: TokenEntry): boolean {
  return (
    a.digest === b.digest &&
    a.parent_resolution === b.parent_resolution &&
    a.parent_call_id === b.parent_call_id &&
    sameTokens(a.prompt_token_ids, b.prompt_token_ids) &&
    sameTokens(a.generation_token_ids, b.generation_token_ids) &&
    a.generation_log_probs.every((value, index) => value === b.generation_log_probs[index])
  );
}
