/** What a build says about itself: counts, and why it must not be trained. */
import type { CallGraph } from "./call-graph.js";
import type { CallWarning } from "./call-health.js";
import type { TokenEntry } from "./records.js";

/** One reason to mask: a SCREAMING_SNAKE code, and what it was about. */
export interface MaskReason {
  readonly code: string;
  readonly detail?: string;
}

/** Which chain holds the harness's final answer. `chain: ""` is unattributed. */
export interface TerminalAttribution {
  method: "message_id" | "text" | "";
  call_id: string | null;
  reason: string;
  chain: "delivered" | "";
}

/** The counts of a build that has a chain. Field names are the ecosystem's. */
export interface ChainMetrics {
  chains: number;
  roots: number;
  quarantined_calls: number;
  /** Of `n_calls`, 4 decimals. */
  quarantined_fraction: number;
  /** Delivered of captured generated tokens, 4 decimals. */
  delivered_fraction: number;
  generated_tokens_captured: number;
  generated_tokens_delivered: number;
  empty_generation_calls: number;
  unresolved_calls: number;
  superseded_calls: number;
  terminal_attribution: TerminalAttribution;
  /** Of the delivered chain; absent when no call has a version. */
  policy_version?: { min: number; max: number };
}

/** `_ng_token_capture` of a row. A build without a chain lacks the counts of one. */
export interface TokenCaptureMetrics extends Partial<ChainMetrics> {
  n_calls: number;
  failed_calls: number;
  aborted_calls: number;
  capture_incomplete?: true;
  /** `CODE: message`. */
  error?: string;
  /** In `all`: the trajectories of the row, the shown one included. The other counts are of the shown one. */
  trajectories?: number;
  mask_reasons: MaskReason[];
  warnings: CallWarning[];
}

export function generatedTokens(entries: readonly TokenEntry[]): number {
  return entries.reduce((sum, entry) => sum + entry.generation_token_ids.length, 0);
}

export function chainMetrics(
  entries: readonly TokenEntry[],
  graph: CallGraph,
  delivered: readonly TokenEntry[],
  attribution: TerminalAttribution,
): ChainMetrics {
  const quarantined = graph.nodes.filter((node) => node.quarantined).length;
  const captured = generatedTokens(entries);
  const trained = generatedTokens(delivered);
  const versions = policyVersions(delivered);
  return {
    chains: graph.leaves.length,
    roots: graph.roots.length,
    quarantined_calls: quarantined,
    quarantined_fraction: fraction(quarantined, entries.length),
    delivered_fraction: fraction(trained, captured),
    generated_tokens_captured: captured,
    generated_tokens_delivered: trained,
    empty_generation_calls: entries.length - graph.nodes.length,
    unresolved_calls: graph.nodes.filter((node) => node.boundary !== undefined).length,
    superseded_calls: graph.nodes.filter((node) => node.superseded).length,
    terminal_attribution: attribution,
    ...(versions === undefined ? {} : { policy_version: versions }),
  };
}

/** Rounded to 4 decimals as the ecosystem's Python does: half to even, and only an odd number of 32nds is a half. */
function fraction(part: number, whole: number): number {
  if (whole === 0) return 0;
  const value = part / whole;
  if (!Number.isInteger(value * 32) || Number.isInteger(value * 16)) {
    return Number(value.toFixed(4));
  }
  const below = Math.floor(value * 1e4);
  return (below + (below % 2)) / 1e4;
}

function policyVersions(chain: readonly TokenEntry[]): { min: number; max: number } | undefined {
  const seen = chain
    .flatMap((entry) => [entry.policy_version_start, entry.policy_version_end])
    .filter((version) => version !== undefined);
  if (seen.length === 0) return undefined;
  return {
    min: seen.reduce((a, b) => Math.min(a, b)),
    max: seen.reduce((a, b) => Math.max(a, b)),
  };
}
