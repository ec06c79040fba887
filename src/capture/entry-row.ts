/**
 * A record as it is stored, and how the two forms turn into each other. Encoding runs in the model-server worker,
 * off the one writer. A prompt is stored as what follows its longest known beginning, the base: an earlier record's
 * prompt and generation.
 *
 * S1. A decoded record equals the encoded one, value for value, or decoding throws `DIGEST_MISMATCH`.
 * S2. A stored record of a newer format throws `SCHEMA_TOO_NEW` before anything of it is decoded.
 * S3. A base is named by its digest, so a call id that came again can never be a wrong one.
 */
import { createHash } from "node:crypto";
import { decodeLogProbs, encodeLogProbs, int32Bytes, type LogProbWidth } from "./blob.js";
import type { LineageKey, LineageNode } from "./contracts.js";
import { entryDigest, entryMeta, TokenHash } from "./digest.js";
import { CaptureError } from "./errors.js";
import { SCHEMA_VERSION, type TokenEntry } from "./records.js";

/** An earlier record of the rollout (S3). */
export interface EntryBase {
  readonly modelCallId: string;
  /** sha256, 32 bytes. */
  readonly digest: Uint8Array;
}

/** One encoded record. Plain data: it crosses from a model-server worker to the writer. */
export interface EntryRow {
  readonly rolloutId: string;
  readonly modelCallId: string;
  /** sha256, 32 bytes. */
  readonly digest: Uint8Array;
  /** sha256 of prompt and generation, 32 bytes. */
  readonly cumulativeDigest: Uint8Array;
  /** sha256, 32 bytes, of what a later request is looked up by; null for a record that has no lineage. */
  readonly lineageKey: Uint8Array | null;
  readonly createdAt: number;
  readonly promptLength: number;
  readonly generationLength: number;
  readonly logProbWidth: LogProbWidth;
  readonly meta: string;
  /** Null when `prompt` is the whole prompt. */
  readonly base: EntryBase | null;
  /** Leading prompt tokens that the base's prompt and generation begin with; 0 without a base. */
  readonly prefixLength: number;
  /** int32[P - prefixLength]. */
  readonly prompt: Uint8Array;
  /** int32[G]. */
  readonly generation: Uint8Array;
  /** float32[G] or float64[G], by `logProbWidth`. */
  readonly logProbs: Uint8Array;
}

/** The columns of `entry` that decoding needs. */
export interface StoredEntry {
  readonly id: number;
  readonly call_id: string;
  readonly digest: Uint8Array;
  readonly cum_digest: Uint8Array;
  readonly created_at: number;
  readonly base_id: number | null;
  readonly prefix_len: number;
  readonly n_prompt: number;
  readonly n_gen: number;
  readonly lp_width: LogProbWidth;
  readonly meta: string;
  readonly prompt: Uint8Array;
  readonly gen: Uint8Array;
  readonly logp: Uint8Array;
}

/** Where a prompt starts to be new. */
export interface DeltaStart {
  readonly base: EntryBase;
  readonly prefixLength: number;
  /** Over the first `prefixLength` tokens of the prompt. */
  readonly hash: TokenHash;
}

/**
 * Encodes a checked record whole.
 * @throws DIGEST_MISMATCH when the record brings a digest that is not its own.
 * @throws RECORD_INVALID when a field has no JSON form.
 */
export function encodeEntry(entry: TokenEntry): EntryRow {
  return encodeDelta(entry, undefined).row;
}

/**
 * Encodes a checked record as what is new in it; `hash` covers its prompt and generation.
 * @throws as `encodeEntry` does.
 */
export function encodeDelta(
  entry: TokenEntry,
  start: DeltaStart | undefined,
): { row: EntryRow; hash: TokenHash } {
  const prefixLength = start?.prefixLength ?? 0;
  const suffix = entry.prompt_token_ids.subarray(prefixLength);
  const hash = (start?.hash ?? TokenHash.empty()).add(suffix).add(entry.generation_token_ids);
  const cumulative = hash.hex();
  const meta = entryMeta(entry);
  const digest = entryDigest(entry, meta, cumulative);
  if (entry.digest !== undefined && entry.digest !== digest) {
    throw new CaptureError(
      "DIGEST_MISMATCH",
      `The record of call ${JSON.stringify(entry.model_call_id)} brings a digest that is not its own.`,
    );
  }
  const logProbs = encodeLogProbs(entry.generation_log_probs);
  const row: EntryRow = {
    rolloutId: entry.rollout_id,
    modelCallId: entry.model_call_id,
    digest: hexBytes(digest),
    cumulativeDigest: hexBytes(cumulative),
    lineageKey: keyOfEntry(entry),
    createdAt: entry.created_at,
    promptLength: entry.prompt_token_ids.length,
    generationLength: entry.generation_token_ids.length,
    logProbWidth: logProbs.width,
    meta,
    base: start?.base ?? null,
    prefixLength,
    prompt: int32Bytes(suffix),
    generation: int32Bytes(entry.generation_token_ids),
    logProbs: logProbs.bytes,
  };
  return { row, hash };
}

/** The same record stored whole: its base is not there. `entry` is the one that the row was made of. */
export function withoutBase(row: EntryRow, entry: Pick<TokenEntry, "prompt_token_ids">): EntryRow {
  return { ...row, base: null, prefixLength: 0, prompt: int32Bytes(entry.prompt_token_ids) };
}

/** The tokens of a stored record, put together again. */
export interface RowTokens {
  readonly prompt: Int32Array;
  readonly generation: Int32Array;
  /** sha256, hex, of both. */
  readonly cumulative: string;
}

/**
 * The record as it was put, its digest re-checked.
 * @throws SCHEMA_TOO_NEW (S2)
 * @throws DIGEST_MISMATCH when a stored byte changed (S1).
 */
export function decodeEntry(row: StoredEntry, tokens: RowTokens): TokenEntry {
  const meta = decodeMeta(row);
  const digest = Buffer.from(row.digest).toString("hex");
  const entry = {
    ...meta,
    prompt_token_ids: tokens.prompt,
    generation_token_ids: tokens.generation,
    generation_log_probs: logProbsOf(row),
    created_at: row.created_at,
    digest,
  } as TokenEntry;
  const actual = entryDigest(entry, row.meta, tokens.cumulative);
  const cumulative = Buffer.from(row.cum_digest).toString("hex");
  // The columns that find a record are checked too: a flipped bit there would file it under another call.
  const same = actual === digest && cumulative === tokens.cumulative;
  if (!same || entry.model_call_id !== row.call_id) throw changedRecord(row.call_id);
  return entry;
}

/** What lineage knows of a stored call, without its arrays. @throws SCHEMA_TOO_NEW (S2) */
export function decodeNode(
  row: Pick<StoredEntry, "call_id" | "cum_digest" | "meta"> & { readonly cum_len: number },
): LineageNode {
  const meta = decodeMeta(row);
  return {
    modelCallId: row.call_id,
    model: meta.model,
    contextDigest: meta.context_digest ?? "",
    contextLength: meta.context_length ?? 0,
    fingerprintVersion: meta.fingerprint_version ?? 0,
    servedText: meta.served_text ?? "",
    servedToolCalls: meta.served_tool_calls ?? [],
    finishReason: meta.finish_reason,
    cumLen: row.cum_len,
    cumulativeDigest: Buffer.from(row.cum_digest).toString("hex"),
  };
}

/** sha256, 32 bytes, of a lookup key: the ordered list of ids, or the exact text. */
export function lineageKeyHash(key: LineageKey): Uint8Array {
  const what = key.kind === "text" ? key.text : key.ids;
  return hexBytes(
    createHash("sha256")
      .update(JSON.stringify([key.kind, what]))
      .digest("hex"),
  );
}

/** A turn is looked up by its tool calls when it has any, else by its text; without a context digest, not at all. */
function keyOfEntry(entry: TokenEntry): Uint8Array | null {
  const known = [entry.context_digest, entry.context_length, entry.fingerprint_version];
  if (known.includes(undefined)) return null;
  const ids = entry.served_tool_call_ids ?? (entry.served_tool_calls ?? []).map((call) => call.id);
  if (ids.length > 0) return lineageKeyHash({ kind: "tool_call_ids", ids });
  const text = entry.served_text;
  return text === undefined ? null : lineageKeyHash({ kind: "text", text });
}

function logProbsOf(row: StoredEntry): Float64Array {
  try {
    return decodeLogProbs(row.logp, row.lp_width);
  } catch (cause) {
    throw changedRecord(row.call_id, { cause });
  }
}

function decodeMeta(row: {
  readonly call_id: string;
  readonly meta: string;
}): Partial<TokenEntry> & {
  readonly model: string;
} {
  const meta = parseMeta(row);
  const version: unknown = meta["schema_version"];
  if (typeof version !== "number" || version > SCHEMA_VERSION) {
    throw new CaptureError(
      "SCHEMA_TOO_NEW",
      `The stored record of call ${JSON.stringify(row.call_id)} has schema_version ${String(version)}; ` +
        `this build reads up to ${SCHEMA_VERSION}.`,
    );
  }
  return meta as Partial<TokenEntry> & { model: string };
}

function parseMeta(row: {
  readonly call_id: string;
  readonly meta: string;
}): Record<string, unknown> {
  try {
    return JSON.parse(row.meta) as Record<string, unknown>;
  } catch (cause) {
    throw changedRecord(row.call_id, { cause });
  }
}

/** `DIGEST_MISMATCH`: the stored bytes of the call are not those that were put. */
export function changedRecord(callId: string, options?: ErrorOptions): CaptureError {
  const message = `The stored record of call ${JSON.stringify(callId)} is not what was put.`;
  return new CaptureError("DIGEST_MISMATCH", message, options);
}

function hexBytes(hex: string): Uint8Array {
  return new Uint8Array(Buffer.from(hex, "hex"));
}
