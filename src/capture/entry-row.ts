/**
 * A record as it is stored, and how the two forms turn into each other. Encoding runs in the model-server worker,
 * off the one writer.
 *
 * S1. A decoded record equals the encoded one, value for value, or decoding throws `DIGEST_MISMATCH`.
 * S2. A stored record of a newer format throws `SCHEMA_TOO_NEW` before anything of it is decoded.
 */
import { createHash } from "node:crypto";
import {
  decodeLogProbs,
  encodeLogProbs,
  int32Bytes,
  int32FromBytes,
  type LogProbWidth,
} from "./blob.js";
import type { LineageKey, LineageNode } from "./contracts.js";
import { cumulativeDigest, entryDigest, entryMeta } from "./digest.js";
import { CaptureError } from "./errors.js";
import { SCHEMA_VERSION, type TokenEntry } from "./records.js";

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
  /** int32[P]. */
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
  readonly lp_width: LogProbWidth;
  readonly meta: string;
  readonly prompt: Uint8Array;
  readonly gen: Uint8Array;
  readonly logp: Uint8Array;
}

/**
 * Encodes a checked record.
 * @throws DIGEST_MISMATCH when the record brings a digest that is not its own.
 * @throws RECORD_INVALID when a field has no JSON form.
 */
export function encodeEntry(entry: TokenEntry): EntryRow {
  const meta = entryMeta(entry);
  const digest = entryDigest(entry, meta);
  if (entry.digest !== undefined && entry.digest !== digest) {
    throw new CaptureError(
      "DIGEST_MISMATCH",
      `The record of call ${JSON.stringify(entry.model_call_id)} brings a digest that is not its own.`,
    );
  }
  const prompt = entry.prompt_token_ids;
  const generation = entry.generation_token_ids;
  const logProbs = encodeLogProbs(entry.generation_log_probs);
  return {
    rolloutId: entry.rollout_id,
    modelCallId: entry.model_call_id,
    digest: hexBytes(digest),
    cumulativeDigest: hexBytes(cumulativeDigest(prompt, generation)),
    lineageKey: keyOfEntry(entry),
    createdAt: entry.created_at,
    promptLength: prompt.length,
    generationLength: generation.length,
    logProbWidth: logProbs.width,
    meta,
    prompt: int32Bytes(prompt),
    generation: int32Bytes(generation),
    logProbs: logProbs.bytes,
  };
}

/**
 * The record as it was put, its digest re-checked.
 * @throws SCHEMA_TOO_NEW (S2)
 * @throws DIGEST_MISMATCH when a stored byte changed (S1).
 */
export function decodeEntry(row: StoredEntry): TokenEntry {
  const meta = decodeMeta(row);
  const digest = Buffer.from(row.digest).toString("hex");
  const entry = { ...meta, ...decodeArrays(row), created_at: row.created_at, digest } as TokenEntry;
  // The columns that find a record are checked too: a flipped bit there would file it under another call.
  if (entryDigest(entry, row.meta) !== digest || entry.model_call_id !== row.call_id) {
    throw changed(row.call_id);
  }
  return entry;
}

/** What lineage knows of a stored call, without its arrays. @throws SCHEMA_TOO_NEW (S2) */
export function decodeNode(
  row: Omit<StoredEntry, "prompt" | "gen" | "logp"> & { cum_len: number },
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

function decodeArrays(row: StoredEntry) {
  try {
    return {
      prompt_token_ids: int32FromBytes(row.prompt),
      generation_token_ids: int32FromBytes(row.gen),
      generation_log_probs: decodeLogProbs(row.logp, row.lp_width),
    };
  } catch (cause) {
    throw changed(row.call_id, { cause });
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
    throw changed(row.call_id, { cause });
  }
}

function changed(callId: string, options?: ErrorOptions): CaptureError {
  const message = `The stored record of call ${JSON.stringify(callId)} is not what was put.`;
  return new CaptureError("DIGEST_MISMATCH", message, options);
}

function hexBytes(hex: string): Uint8Array {
  return new Uint8Array(Buffer.from(hex, "hex"));
}
