/**
 * Checks of token ids and log probabilities, each value before it is converted (C1 of `records.ts`).
 */
import { CaptureError } from "./errors.js";

/** What a token id may be. */
export interface TokenLimits {
  /** Ids lie in [0, this). Default 2^31. */
  readonly vocabularySize?: number;
}

/** Log probabilities are at most this: a probability just above 1 is rounding, more is an error. */
const MAX_LOG_PROB = 1e-6;
/** Log probabilities are above this: engines write -9999 for "not known". */
const MIN_LOG_PROB = -1000;

const MAX_INT32_EXCLUSIVE = 2 ** 31;

/**
 * Checks what an engine answered: ids in the vocabulary, finite log probabilities, as many of one as of the other.
 * @throws RECORD_INVALID naming the array, the index and the value.
 */
export function checkGeneration(
  tokenIds: unknown,
  logProbs: unknown,
  limits: TokenLimits = {},
): { tokenIds: Int32Array; logProbs: Float64Array } {
  const ids = checkTokenIds("generation_token_ids", tokenIds, limits);
  return { tokenIds: ids, logProbs: checkLogProbs("generation_log_probs", logProbs, ids.length) };
}

/**
 * int32[n] of an array or typed array of token ids.
 * @param from index of the first id that was not checked before.
 * @throws RECORD_INVALID
 */
export function checkTokenIds(
  field: string,
  values: unknown,
  limits: TokenLimits,
  from = 0,
): Int32Array {
  const numbers = arrayOf(field, values);
  const limit = limits.vocabularySize ?? MAX_INT32_EXCLUSIVE;
  for (let i = from; i < numbers.length; i += 1) {
    const id = numbers[i];
    if (typeof id !== "number" || !Number.isInteger(id) || id < 0 || id >= limit) {
      throw refused(field, i, id, `an integer in [0, ${limit})`);
    }
  }
  return numbers instanceof Int32Array ? numbers : Int32Array.from(numbers as ArrayLike<number>);
}

/** float64[length] of an array or typed array of log probabilities. @throws RECORD_INVALID */
export function checkLogProbs(field: string, values: unknown, length: number): Float64Array {
  const numbers = arrayOf(field, values);
  if (numbers.length !== length) {
    throw new CaptureError(
      "RECORD_INVALID",
      `${field} has ${numbers.length} values for ${length} generated tokens.`,
    );
  }
  for (let i = 0; i < numbers.length; i += 1) {
    const value = numbers[i];
    // A comparison with NaN is false, so this form refuses it.
    if (typeof value !== "number" || !(value <= MAX_LOG_PROB && value > MIN_LOG_PROB)) {
      throw refused(field, i, value, `a number in (${MIN_LOG_PROB}, ${MAX_LOG_PROB}]`);
    }
  }
  return numbers instanceof Float64Array
    ? numbers
    : Float64Array.from(numbers as ArrayLike<number>);
}

/**
 * Remembers which ids were checked, so that the prompts of a chain, views on one buffer, are checked once in all.
 * Contract: nobody writes to the arrays in the meantime.
 */
export class CheckedTokens {
  readonly #lengths = new Map<ArrayBufferLike, number>();

  /** How many leading ids of the array were noted; of anything but a view from its buffer's start, none. */
  lengthIn(values: unknown): number {
    if (!(values instanceof Int32Array) || values.byteOffset !== 0) return 0;
    return Math.min(values.length, this.#lengths.get(values.buffer) ?? 0);
  }

  note(values: Int32Array): void {
    if (values.byteOffset !== 0) return;
    this.#lengths.set(values.buffer, Math.max(values.length, this.lengthIn(values)));
  }
}

function arrayOf(field: string, values: unknown): ArrayLike<unknown> {
  if (Array.isArray(values)) return values;
  if (ArrayBuffer.isView(values) && !(values instanceof DataView)) {
    return values as unknown as ArrayLike<unknown>;
  }
  throw new CaptureError("RECORD_INVALID", `${field} must be an array of numbers.`);
}

function refused(field: string, index: number, value: unknown, allowed: string): CaptureError {
  const shown = typeof value === "string" ? JSON.stringify(value) : String(value);
  return new CaptureError("RECORD_INVALID", `${field}[${index}] is ${shown}; allowed: ${allowed}.`);
}
