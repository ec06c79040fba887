/** What the embedded policy takes and gives. Token ids and log probabilities only: no HTTP, no threads, no capture. */

/** A byte-level BPE vocabulary with its special tokens. Immutable; one per worker. */
export interface Vocabulary {
  /** Number of ids, special tokens included: every id is in [0, size). */
  readonly size: number;
  /** Ids of a text in which special-token spellings are special tokens (template text). int32[n]. */
  encode(text: string): Promise<Int32Array>;
  /** Ids of a text in which nothing is special: `<|im_end|>` stays six plain tokens (content). int32[n]. */
  encodeOrdinary(text: string): Promise<Int32Array>;
  /** True when the text spells a special token somewhere. */
  spellsSpecial(text: string): boolean;
  /** UTF-8 text of the ids; bytes that are no UTF-8 become U+FFFD. */
  decode(ids: Int32Array | readonly number[]): string;
  /** The exact bytes of the ids. */
  decodeBytes(ids: Int32Array | readonly number[]): Uint8Array;
  /** Spelling of every special token → its id. */
  readonly specials: ReadonlyMap<string, number>;
  /** @throws RangeError when the text is no special token. */
  specialId(text: string): number;
}

/** How a token is drawn. */
export interface PolicySampling {
  /** 0 is greedy. */
  readonly temperature: number;
  /** In (0, 1]. */
  readonly topP: number;
  /** 0 means no limit. */
  readonly topK: number;
  /** uint32. */
  readonly seed: number;
  /** At least 1. */
  readonly maxTokens: number;
}

/** One completion. All arrays have the same length G. */
export interface Generation {
  /** int32[G]; ends with `<|im_end|>` when `finishReason` is `stop`. */
  readonly tokenIds: Int32Array;
  /** float64[G], natural log, temperature 1 and no filter. */
  readonly rawLogProbs: Float64Array;
  /** float64[G], natural log, under the distribution that was sampled (after temperature, top_k, top_p). */
  readonly processedLogProbs: Float64Array;
  readonly finishReason: "stop" | "length";
}

/** One immutable version of the weights. The buffer is shared between threads and never written again. */
export interface PolicySnapshot {
  readonly version: number;
  /** sha256, hex, of the weights. Names the checkpoint in result rows. */
  readonly digest: string;
  /** float64[2^18] over a SharedArrayBuffer. */
  readonly weights: Float64Array;
}

/** Log probabilities of given ids. */
export interface Score {
  readonly rawLogProbs: Float64Array;
  readonly processedLogProbs: Float64Array;
}
