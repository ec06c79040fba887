/**
 * Why the calls of a rollout are not one chain: for every call that does not continue another, the first token at which
 * its prompt leaves the call it is nearest to, and the cause as far as the tokens show it. For people; it decides
 * nothing.
 *
 * X1. Every call that begins a tree (but the first), every lost retry, every ambiguous call and every second branch is a
 *     break.
 * X2. A break is compared with the earlier call that shares the longest beginning with it.
 */

import { type BreakCause, breakCause, isLinked } from "./break-cause.js";
import type { BuildOptions } from "./build.js";
import { buildTrajectory } from "./builder.js";
import { type CallNode, compareIds } from "./call-graph.js";
import { linkRollout } from "./link-rollout.js";
import type { CallPurpose } from "./purpose.js";
import type { TokenEntry } from "./records.js";
import { commonPrefixLength } from "./token-views.js";

/** Text of token ids. */
export type DecodeTokens = (ids: Int32Array) => string;

export interface ChainBreak {
  readonly callId: string;
  readonly purpose: CallPurpose;
  readonly cause: BreakCause;
  /** The recorded reason of an UNRESOLVED call, or what the builder found. */
  readonly reason?: string;
  /** The call that it is compared with; absent when no earlier call shares a token. */
  readonly comparedWith?: string;
  /** Where the two part: a position in both sequences. Absent when the prompt holds all of the other call. */
  readonly firstDifference?: TokenDifference;
}

export interface TokenDifference {
  readonly position: number;
  /** The ids there; -1 past an end. */
  readonly recordedId: number;
  readonly sentId: number;
  /** Text of the tokens before, and from there on, on both sides. */
  readonly before: string;
  readonly recorded: string;
  readonly sent: string;
}

/** Tokens shown before and after the first difference. */
const BEFORE = 24;
const AFTER = 48;

/** Every break of the rollout, in the order in which the calls were made. */
export function explainBreaks(
  entries: readonly TokenEntry[],
  options: BuildOptions,
  decode: DecodeTokens,
): ChainBreak[] {
  const build = buildTrajectory(entries, options);
  if (build.error !== undefined && build.error.code !== "NO_SAFE_CHAIN") return [];
  const { nodes } = linkRollout(entries, options).graph;
  const made = [...nodes].sort(inOrderOfTime);
  return made.flatMap((node, index): ChainBreak[] => {
    const earlier = made.slice(0, index);
    if (!breaksChain(node, earlier)) return []; // X1
    return [explain(node, earlier, build.purposes.get(node.entry.model_call_id) ?? "main", decode)];
  });
}

function inOrderOfTime({ entry: a }: CallNode, { entry: b }: CallNode): number {
  return (
    a.created_at - b.created_at ||
    a.prompt_token_ids.length - b.prompt_token_ids.length ||
    compareIds(a.model_call_id, b.model_call_id)
  );
}

function breaksChain(node: CallNode, earlier: readonly CallNode[]): boolean {
  if (node.quarantined || node.undecided) return true;
  if (node.parent === null) return earlier.length > 0 || node.boundary !== undefined;
  return earlier.some((other) => other.parent === node.parent && !other.quarantined);
}

function explain(
  node: CallNode,
  earlier: readonly CallNode[],
  purpose: CallPurpose,
  decode: DecodeTokens,
): ChainBreak {
  const { entry } = node;
  const nearest = nearestCall(node, earlier); // X2
  const reason = node.boundary ?? quarantineReason(node);
  const difference =
    nearest === undefined
      ? undefined
      : differenceOf(nearest.node.entry, entry, nearest.shared, decode);
  return {
    callId: entry.model_call_id,
    purpose,
    cause: breakCause(node, earlier, purpose, difference),
    ...(reason === undefined ? {} : { reason }),
    ...(nearest === undefined ? {} : { comparedWith: nearest.node.entry.model_call_id }),
    ...(difference === undefined ? {} : { firstDifference: difference }),
  };
}

function quarantineReason(node: CallNode): string | undefined {
  if (node.undecided) return "UNRESOLVED_RETRY";
  if (node.superseded) return "SUPERSEDED";
  return node.quarantined && !isLinked(node.entry) ? "AMBIGUOUS_TOKENS" : undefined;
}

function nearestCall(node: CallNode, earlier: readonly CallNode[]) {
  let nearest: { node: CallNode; shared: number } | undefined;
  for (const other of earlier) {
    const shared = sharedLength(other.entry, node.entry.prompt_token_ids);
    // Of equals the last one: it is what the harness sent before.
    if (shared > 0 && shared >= (nearest?.shared ?? 0)) nearest = { node: other, shared };
  }
  return nearest;
}

/** How many tokens of the call's prompt and generation the other prompt begins with. */
function sharedLength(
  { prompt_token_ids: prompt, generation_token_ids: generation }: TokenEntry,
  other: Int32Array,
) {
  const shared = commonPrefixLength(prompt, other);
  if (shared < prompt.length) return shared;
  return shared + commonPrefixLength(generation, other.subarray(shared));
}

function differenceOf(
  recorded: TokenEntry,
  sent: TokenEntry,
  position: number,
  decode: DecodeTokens,
): TokenDifference | undefined {
  const sentIds = sent.prompt_token_ids;
  const length = recorded.prompt_token_ids.length + recorded.generation_token_ids.length;
  if (position >= length) return undefined;
  const from = Math.max(0, position - BEFORE);
  return {
    position,
    recordedId: idsOf(recorded, position, position + 1)[0] ?? -1,
    sentId: sentIds[position] ?? -1,
    before: decode(sentIds.subarray(from, position)),
    recorded: decode(idsOf(recorded, position, position + AFTER)),
    sent: decode(sentIds.subarray(position, position + AFTER)),
  };
}

/** Ids [from, to) of prompt and generation. */
function idsOf(entry: TokenEntry, from: number, to: number): Int32Array {
  const { prompt_token_ids: prompt, generation_token_ids: generation } = entry;
  const ids = [
    ...prompt.subarray(from, to),
    ...generation.subarray(Math.max(0, from - prompt.length), Math.max(0, to - prompt.length)),
  ];
  return Int32Array.from(ids);
}
