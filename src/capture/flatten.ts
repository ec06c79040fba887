/** A rebuilt response as a trainer wants it: one sequence and its loss mask, from either output form. */
import { CaptureError } from "./errors.js";
import { isDelta, outputItems, type TokenItem, tokenItem } from "./token-items.js";

export interface FlatTrajectory {
  /** int32[T]: prompt and generated tokens, in order. */
  readonly tokenIds: Int32Array;
  /** uint8[T]: 1 where the policy sampled the token, 0 where it is context. */
  readonly lossMask: Uint8Array;
  /** float64[T], natural log; 0 where the mask is 0. */
  readonly logProbs: Float64Array;
}

/**
 * Contract: the row is trainable (`isTrainable`); what it checked is not checked again.
 * @throws RECORD_INVALID when an item lacks an array, or does not continue the items before it.
 */
export function flattenTrajectory(response: unknown): FlatTrajectory {
  const items = outputItems(response).flatMap((item) => {
    const tokens = tokenItem(item);
    if (tokens === null) throw invalid("an item has some of the token arrays, not all");
    return tokens === undefined ? [] : [tokens];
  });
  const delta = isDelta(response);
  const length = delta ? items.reduce(addLengths, 0) : lengthOf(items.at(-1));
  const flat = {
    tokenIds: new Int32Array(length),
    lossMask: new Uint8Array(length),
    logProbs: new Float64Array(length),
  };
  let at = 0;
  for (const { prompt, generation, logProbs } of items) {
    const context = delta ? prompt : Array.prototype.slice.call(prompt, at);
    if (!delta && prompt.length < at) throw invalid("an item does not continue the one before it");
    flat.tokenIds.set(context as ArrayLike<number>, at);
    at += context.length;
    flat.tokenIds.set(generation as ArrayLike<number>, at);
    flat.logProbs.set(logProbs as ArrayLike<number>, at);
    flat.lossMask.fill(1, at, at + generation.length);
    at += generation.length;
  }
  return flat;
}

function addLengths(sum: number, item: TokenItem): number {
  return sum + lengthOf(item);
}

function lengthOf(item: TokenItem | undefined): number {
  return item === undefined ? 0 : item.prompt.length + item.generation.length;
}

function invalid(what: string): CaptureError {
  return new CaptureError("RECORD_INVALID", `response.output: ${what}.`);
}
