/**
 * From a call's record to a row for the writer, in the worker that made the record.
 *
 * N1. The cost of a call is that of its own new tokens; what it shares with an earlier one is compared and nothing else.
 *     The comparison reads all of a prompt, so it may be made ahead, while something slower is waited for.
 * N2. A prompt is trusted as far as it equals tokens that were checked before, and not one token further.
 */
import { type EntryRow, encodeDelta } from "./entry-row.js";
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

  /** int32[P+G] of a call that was encoded here and not continued since; undefined for any other. */
  cumulativeIds(rolloutId: string, modelCallId: string): Int32Array | undefined {
    return this.#chains.cumulativeIds(rolloutId, modelCallId);
  }

  /** The rollout makes no more calls. */
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
