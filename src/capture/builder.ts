/**
 * Builds the trajectories of a rollout from its records. Pure: no store, no clock, no I/O.
 *
 * B1. A build never throws: what cannot be built is a masked build with an error.
 * B2. Masked = error, unresolved retry, roots ≠ 1, chains ≠ 1, an UNRESOLVED boundary in the chain, incomplete, a
 *     final answer outside the chain, an auxiliary chain, or a reason of the caller. Each is named in `mask_reasons`.
 * B3. The build does not depend on the order of the entries.
 * B4. `created_at` chooses only which chain a masked build of `main` shows: earliest root, then smallest call id.
 * B5. When every call has a verdict and the final answer is in exactly one chain, that chain stands alone: other roots,
 *     chains and retries are not its concern. In two chains it masks.
 * B6. `all` gives every chain, each sampled token in one of them only. When every call has a verdict, each chain is
 *     masked for its own reasons and the rollout's, not for being one of several.
 * B7. A chain that ends in an auxiliary call is masked unless that call gave the final answer: when the task's own
 *     calls failed, what is left must not earn the task's reward.
 */
import type { BuildOptions, TrajectoryBuild } from "./build.js";
import { callWarnings } from "./call-health.js";
import { callerReasons, judgeChains } from "./chain-judge.js";
import { linkRollout } from "./link-rollout.js";
import { chainMetrics } from "./metrics.js";
import { settlePurposes } from "./purpose.js";
import { type BuildError, findProblem } from "./record-problems.js";
import type { TokenEntry } from "./records.js";

/** Chains the recorded calls of one rollout. Time linear in tokens. */
export function buildTrajectory(
  entries: readonly TokenEntry[],
  options: BuildOptions,
): TrajectoryBuild {
  const problem = findProblem(entries, options.rolloutId);
  if (problem !== undefined) return failedBuild(entries.length, options, problem);
  const { calls, graph, attribution } = linkRollout(entries, options);
  if (graph.leaves.length === 0) {
    const message = "no chain is free of quarantined calls and holds a generated token";
    return failedBuild(calls.length, options, { code: "NO_SAFE_CHAIN", message });
  }
  const purposes = settlePurposes(calls, options.purposeOf);
  const judged = judgeChains(graph, attribution.call_id, purposes, options);
  const chain = judged.chain.map((node) => node.entry);
  if (judged.holdsAnswer) attribution.chain = "delivered";
  return {
    rolloutId: options.rolloutId,
    chain,
    others: judged.others,
    masked: judged.reasons.length > 0,
    unresolvedRetries: graph.unresolvedRetries,
    purposes,
    metrics: {
      n_calls: calls.length,
      ...chainMetrics(calls, graph, chain, attribution),
      ...callMetrics(options),
      ...(options.delivery === "all" ? { trajectories: 1 + judged.others.length } : {}),
      mask_reasons: judged.reasons,
      warnings: callWarnings(calls, purposes),
    },
  };
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
    others: [],
    masked: true,
    unresolvedRetries: [],
    purposes: new Map(),
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

function callMetrics(options: BuildOptions) {
  return {
    failed_calls: options.failedCalls ?? 0,
    aborted_calls: options.abortedCalls ?? 0,
    ...(options.incomplete === true ? { capture_incomplete: true as const } : {}),
  };
}
