/**
 * From a call's record to a row for the writer, in the worker that made the record.
 *
 * N1. The cost of a call is that of its own new tokens; what it shares with an earlier one is compared and nothing else.
 *     The comparison reads all of a prompt, so it may be made ahead, while something slower is waited for.
 * N2. A prompt is trusted as far as it equals tokens that were checked before, and not one token further.
 */
import type { LineageKey, LineageNode } from "./contracts.js";
import { decodeNode, type EntryRow, encodeDelta, lineageKeyHash } from "./entry-row.js";
import { parseTokenEntry } from "./parse-entry.js";
import type { TokenEntry } from "./records.js";
import { ChainCache, type ChainMatch, startOf } from "./store-chains.js";

/** Bytes that a sink remembers of its rollouts' tokens. */
const CACHE_BYTES = 64 * 1024 * 1024;

/** A prompt that was compared before its call had a record. */
export interface ComparedPrompt {
  readonly prompt: Int32Array;
  readonly match: ChainMatch;
}

export class RowEncoder {
  readonly #chains = new ChainCache(CACHE_BYTES);

  /** Compares the prompt of a call that will be recorded. Contract: the array does not change until it is encoded. */
  compare(rolloutId: string, prompt: Int32Array): ComparedPrompt | undefined {
    const match = this.#chains.match(rolloutId, prompt);
    return match === undefined ? undefined : { prompt, match };
  }

  /**
   * Checks and encodes a record; the next one may be stored upon it.
   * @param compared what `compare` said of the record's own prompt array; of another array it means nothing.
   * @throws as `parseTokenEntry` and `encodeEntry` do.
   */
  encode(record: TokenEntry, compared?: ComparedPrompt): EntryRow {
    const match = this.#known(record, compared) ?? this.#match(record);
    const entry = parseTokenEntry(record, { checkedPromptLength: match?.prefixLength ?? 0 });
    const { row, hash } = encodeDelta(entry, startOf(match));
    this.#chains.note(entry, row.digest, hash, match);
    return row;
  }

  /** The row was acknowledged. */
  confirm(row: EntryRow): void {
    this.#chains.confirm(row);
  }

  /**
   * The calls that served these tool-call ids, when this encoder knows them. Such ids are random and served once, so
   * the one call that is known here is all there is; a text may have been served by another worker too.
   */
  candidates(rolloutId: string, key: LineageKey): readonly LineageNode[] | undefined {
    if (key.kind !== "tool_call_ids") return undefined;
    const row = this.#chains.findStored(rolloutId, lineageKeyHash(key));
    if (row === undefined) return undefined;
    const { modelCallId: call_id, cumulativeDigest: cum_digest, meta } = row;
    const cum_len = row.promptLength + row.generationLength;
    return [decodeNode({ call_id, cum_digest, meta, cum_len })];
  }

  /** int32[P+G] of a call that was encoded here and not continued since; undefined for any other. */
  cumulativeIds(rolloutId: string, modelCallId: string): Int32Array | undefined {
    return this.#chains.cumulativeIds(rolloutId, modelCallId);
  }

  /** The rollout makes no more calls, or begins again. */
  forget(rolloutId: string): void {
    this.#chains.forget(rolloutId);
  }

  #known(record: TokenEntry, compared: ComparedPrompt | undefined): ChainMatch | undefined {
    if (compared === undefined || compared.prompt !== record.prompt_token_ids) return undefined;
    return this.#chains.stillHolds(record.rollout_id, compared.match) ? compared.match : undefined;
  }

  /** The record is not checked yet: it may be anything. */
  #match(record: TokenEntry): ChainMatch | undefined {
    const { rollout_id: rolloutId, prompt_token_ids: prompt } = record;
    return prompt instanceof Int32Array ? this.#chains.match(rolloutId, prompt) : undefined;
  }
}
