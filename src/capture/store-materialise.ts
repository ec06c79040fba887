/**
 * Puts stored records together again: each prompt is a beginning of its base, followed by what the record holds.
 *
 * E1. Every record's digest is re-checked on the whole tokens. A record that fails is no base either, so everything
 *     that was stored upon it fails too.
 * E2. Records that extend each other are views on one buffer of shared memory: a chain costs the tokens it holds,
 *     however many calls it has, here and in a thread that it is sent to.
 * E3. Linear in the tokens stored. No recursion.
 */
import { copyInt32 } from "./blob.js";
import { TokenHash } from "./digest.js";
import { changedRecord, decodeEntry, type RowTokens, type StoredEntry } from "./entry-row.js";
import { type CaptureError, isCaptureError } from "./errors.js";
import type { TokenEntry } from "./records.js";

/** What became of one stored record. */
export type Materialised =
  | { readonly row: StoredEntry; readonly entry: TokenEntry; readonly error?: undefined }
  | { readonly row: StoredEntry; readonly entry?: undefined; readonly error: CaptureError };

/** A record that was put together: its tokens lie in `buffer[0..length)`. */
interface Chain {
  readonly buffer: Int32Array;
  readonly length: number;
  readonly hash: TokenHash;
}

/**
 * Decodes the records of one rollout; `rows` must hold every base, in ascending order of `id`.
 * The arrays of what it returns are views on shared memory.
 */
export function materialise(rows: readonly StoredEntry[]): Materialised[] {
  const plan = planBuffers(rows);
  const chains = new Map<number, Chain>();
  return rows.map((row) => {
    try {
      const base = row.base_id === null ? undefined : chains.get(row.base_id);
      const chain = plan.has(row.id) ? extendChain(row, base, plan) : undefined;
      if (chain === undefined) throw changedRecord(row.call_id); // E1
      const entry = decodeEntry(row, tokensOf(row, chain));
      chains.set(row.id, chain);
      return { row, entry };
    } catch (error) {
      if (!isCaptureError(error)) throw error;
      return { row, error };
    }
  });
}

interface BufferPlan {
  /** Tokens that the buffer of a record must hold: its own, and those of the records that go on in it. */
  readonly capacity: number;
  /** The record that goes on in this one's buffer. */
  readonly heir: number | undefined;
}

/** By id; a record whose lengths do not fit its bytes or its base has no plan. */
function planBuffers(rows: readonly StoredEntry[]): Map<number, BufferPlan> {
  const lengths = new Map<number, number>();
  const heirs = new Map<number, number>();
  for (const row of rows) {
    if (!hasSaneLengths(row, lengths)) continue;
    lengths.set(row.id, row.n_prompt + row.n_gen);
    if (row.base_id === null || row.prefix_len !== lengths.get(row.base_id)) continue;
    if (!heirs.has(row.base_id)) heirs.set(row.base_id, row.id);
  }
  const plan = new Map<number, BufferPlan>();
  for (const row of rows.toReversed()) {
    const own = lengths.get(row.id);
    if (own === undefined) continue;
    const heir = heirs.get(row.id);
    const later = heir === undefined ? 0 : (plan.get(heir)?.capacity ?? 0);
    plan.set(row.id, { capacity: Math.max(own, later), heir });
  }
  return plan;
}

function hasSaneLengths(row: StoredEntry, lengths: ReadonlyMap<number, number>): boolean {
  const { prefix_len: prefix, n_prompt: promptLength, n_gen: generationLength } = row;
  const available = row.base_id === null ? 0 : (lengths.get(row.base_id) ?? -1);
  return (
    prefix >= 0 &&
    prefix <= available &&
    row.prompt.length === 4 * (promptLength - prefix) &&
    row.gen.length === 4 * generationLength
  );
}

/** Undefined when the base is not there. */
function extendChain(
  row: StoredEntry,
  base: Chain | undefined,
  plan: ReadonlyMap<number, BufferPlan>,
): Chain | undefined {
  if (row.base_id !== null && base === undefined) return undefined;
  const { prefix_len: prefix, n_prompt: promptLength } = row;
  const length = promptLength + row.n_gen;
  const goesOn = base !== undefined && plan.get(row.base_id ?? -1)?.heir === row.id;
  const buffer = goesOn ? base.buffer : newBuffer(plan.get(row.id)?.capacity ?? length);
  const start = base?.buffer.subarray(0, prefix) ?? new Int32Array();
  if (!goesOn) buffer.set(start);
  copyInt32(row.prompt, buffer, prefix);
  copyInt32(row.gen, buffer, promptLength);
  const known = base !== undefined && prefix === base.length ? base.hash : undefined;
  const hash = known ?? TokenHash.empty().add(start);
  return { buffer, length, hash: hash.add(buffer.subarray(prefix, length)) };
}

/** E2 */
function newBuffer(tokens: number): Int32Array {
  return new Int32Array(new SharedArrayBuffer(4 * tokens));
}

function tokensOf(row: StoredEntry, chain: Chain): RowTokens {
  return {
    prompt: chain.buffer.subarray(0, row.n_prompt),
    generation: chain.buffer.subarray(row.n_prompt, chain.length),
    cumulative: chain.hash.hex(),
  };
}
