/**
 * The two digests of a record.
 *
 * D1. Equal records have equal digests whatever the order of their keys; `created_at` and `digest` are left out (C3).
 * D2. The digest covers the full prompt and float64 log probabilities, however the store keeps them.
 * D3. What JSON would change or drop in silence (NaN, a function, a class instance) is refused.
 * D4. A call that extends another is digested at the cost of its own new tokens, however long its prompt is.
 */
import { createHash, type Hash } from "node:crypto";
import { bytesOf } from "./blob.js";
import { canonicalJson } from "./canonical-json.js";
import { CaptureError } from "./errors.js";
import type { TokenEntry } from "./records.js";

/** Deepest nesting of tool-call arguments and output items that is recorded. */
const MAX_DEPTH = 500;

/**
 * Canonical JSON of everything in a record that is not an array of tokens, `created_at` or `digest`.
 * @throws RECORD_INVALID when a value has no JSON form, or is nested more than 500 levels deep.
 */
export function entryMeta(entry: TokenEntry): string {
  const {
    prompt_token_ids: _prompt,
    generation_token_ids: _generation,
    generation_log_probs: _logProbs,
    created_at: _createdAt,
    digest: _digest,
    ...meta
  } = entry;
  refuseUnsayable(meta, 0); // D3
  return canonicalJson(meta);
}

/**
 * sha256, hex, over the cumulative digest (32 bytes), the two lengths (uint32), the float64 bytes of the log
 * probabilities and the canonical meta. Tokens enter through the cumulative digest alone (D4).
 *
 * @param cumulative sha256, hex, of prompt and generation, where the caller has it.
 */
export function entryDigest(
  entry: TokenEntry,
  meta: string = entryMeta(entry),
  cumulative: string = cumulativeDigest(entry.prompt_token_ids, entry.generation_token_ids),
): string {
  const lengths = [entry.prompt_token_ids.length, entry.generation_token_ids.length];
  return createHash("sha256")
    .update(cumulative, "hex")
    .update(bytesOf(Int32Array.from(lengths)))
    .update(bytesOf(entry.generation_log_probs))
    .update(meta, "utf8")
    .digest("hex");
}

/** sha256, hex, over the int32 bytes of prompt and generation: equal means identical tokens. */
export function cumulativeDigest(prompt: Int32Array, generation: Int32Array): string {
  return TokenHash.empty().add(prompt).add(generation).hex();
}

/** A cumulative digest that can go on: each step costs the tokens it adds. Immutable. */
export class TokenHash {
  readonly #state: Hash;

  private constructor(state: Hash) {
    this.#state = state;
  }

  static empty(): TokenHash {
    return new TokenHash(createHash("sha256"));
  }

  /** The hash of the tokens so far followed by these, int32[n]. */
  add(tokens: Int32Array): TokenHash {
    return new TokenHash(this.#state.copy().update(bytesOf(tokens)));
  }

  hex(): string {
    return this.#state.copy().digest("hex");
  }
}

function refuseUnsayable(value: unknown, depth: number): void {
  if (depth > MAX_DEPTH) throw invalid(`nested more than ${MAX_DEPTH} levels deep`);
  if (value === null || typeof value === "boolean" || typeof value === "string") return;
  if (typeof value === "number" && Number.isFinite(value)) return;
  // An iteration, not `forEach`: that would skip a hole.
  if (Array.isArray(value)) {
    for (const item of value) refuseUnsayable(item, depth + 1);
  } else if (isPlainObject(value)) {
    for (const member of Object.values(value)) {
      if (member !== undefined) refuseUnsayable(member, depth + 1);
    }
  } else {
    const what = typeof value === "number" ? value : Object.prototype.toString.call(value);
    throw invalid(`${what} has no JSON form`);
  }
}

function isPlainObject(value: unknown): value is Record<string, unknown> {
  if (typeof value !== "object" || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

function invalid(what: string): CaptureError {
  return new CaptureError("RECORD_INVALID", `A record holds a value that cannot be kept: ${what}.`);
}
