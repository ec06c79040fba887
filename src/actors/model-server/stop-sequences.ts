/**
 * Ends a generation where a requested text appears, as an engine that stops there would have: an answer's beginning has
 * the same ids and log probabilities whether or not sampling went on.
 *
 * E1. What is kept is the shortest beginning of the ids that spells a stop sequence: no id is split or invented.
 */
import type { TokenGeneration } from "./engines/engine.js";
import { cutSpans } from "./engines/reported-versions.js";

export interface StoppedGeneration {
  readonly generation: TokenGeneration;
  /** The text that ended the answer; null when none did. */
  readonly stopSequence: string | null;
}

/** @param decode Text of ids, special tokens included. */
export function stopAt(
  generation: TokenGeneration,
  stopSequences: readonly string[],
  decode: (ids: ArrayLike<number>) => string,
): StoppedGeneration {
  const { tokenIds, logProbs } = generation;
  const ids = Array.from(tokenIds);
  const spelled = (length: number) => {
    const text = decode(ids.slice(0, length));
    return stopSequences.find((stop) => text.includes(stop)) ?? null;
  };
  if (stopSequences.length === 0 || spelled(ids.length) === null)
    return { generation, stopSequence: null };
  let short = 0;
  let enough = ids.length;
  while (enough - short > 1) {
    const middle = (short + enough) >>> 1;
    if (spelled(middle) === null) short = middle;
    else enough = middle;
  }
  const { completionTokens, policyVersionSpans: spans } = generation;
  const cut = {
    ...generation,
    // A count that was wrong stays wrong by as much.
    ...(completionTokens !== undefined && {
      completionTokens: completionTokens - (ids.length - enough),
    }),
    ...(spans !== undefined && { policyVersionSpans: cutSpans(spans, enough) }),
    tokenIds: ids.slice(0, enough),
    logProbs: Array.from(logProbs).slice(0, enough),
    finishReason: "stop" as const,
  };
  return { generation: cut, stopSequence: spelled(enough) }; // E1
}
