/**
 * A byte-level BPE vocabulary out of a Hugging Face `tokenizer.json`: native encoding, a byte table of our own for
 * decoding. It holds no chat logic.
 *
 * V1. `encode` is the native tokenizer: a text that spells a special token gets that token.
 * V2. `encodeOrdinary` never yields a special id, and decodes back to its text (after the tokenizer's normalisation).
 * V3. `decodeBytes` is exact for every id, also for one that is no UTF-8 by itself.
 */
import { Tokenizer } from "tokenizers";
import { parseTokenizerFile, type TokenizerFile } from "./tokenizer-file.js";
import type { Vocabulary } from "./types.js";
import { type TokenBytes, tokenBytes } from "./vocabulary-tables.js";

/** See the module header. Immutable but for tokenizers that are built when a text first needs them. */
export class ByteLevelVocabulary implements Vocabulary {
  readonly size: number;
  readonly specials: ReadonlyMap<string, number>;
  readonly #readJson: () => string;
  #native: Tokenizer | undefined;
  readonly #bytes: Uint8Array;
  readonly #starts: Uint32Array;
  readonly #special: RegExp;
  #ordinary: Tokenizer | undefined;

  /** @throws PolicyError `VOCABULARY_UNREADABLE` when the text is no `tokenizer.json` with byte-level BPE. */
  static parse(json: string): ByteLevelVocabulary {
    const tokens = tokenBytes(parseTokenizerFile(json));
    return new ByteLevelVocabulary(tokens, () => json, Tokenizer.fromString(json));
  }

  /**
   * @param readJson text of the `tokenizer.json` that the tokens are of.
   * @param native built from it, a second of work, when a text first needs it.
   */
  constructor(tokens: TokenBytes, readJson: () => string, native?: Tokenizer) {
    this.#readJson = readJson;
    this.#native = native;
    this.specials = new Map(tokens.specials);
    this.#special = anyOf([...this.specials.keys()]);
    this.size = tokens.size;
    this.#bytes = tokens.bytes;
    this.#starts = tokens.starts;
  }

  async encode(text: string): Promise<Int32Array> {
    this.#native ??= Tokenizer.fromString(this.#readJson());
    const encoding = await this.#native.encode(text, null, { addSpecialTokens: false });
    return Int32Array.from(encoding.getIds());
  }

  async encodeOrdinary(text: string): Promise<Int32Array> {
    if (!this.spellsSpecial(text)) return this.encode(text);
    this.#ordinary ??= ordinaryTokenizer(this.#readJson());
    const encoding = await this.#ordinary.encode(text, null, { addSpecialTokens: false });
    return Int32Array.from(encoding.getIds());
  }

  spellsSpecial(text: string): boolean {
    return this.#special.test(text);
  }

  /** @throws RangeError when an id is not in [0, size). */
  decode(ids: Int32Array | readonly number[]): string {
    return Buffer.from(this.decodeBytes(ids).buffer).toString("utf8");
  }

  /** @throws RangeError when an id is not in [0, size). */
  decodeBytes(ids: Int32Array | readonly number[]): Uint8Array {
    let length = 0;
    for (const id of ids) {
      if (!(Number.isInteger(id) && id >= 0 && id < this.size))
        throw new RangeError(`token id ${id} is not an integer in [0, ${this.size})`);
      length += (this.#starts[id + 1] ?? 0) - (this.#starts[id] ?? 0);
    }
    const out = new Uint8Array(length);
    let at = 0;
    for (const id of ids) {
      const token = this.#bytes.subarray(this.#starts[id], this.#starts[id + 1]);
      out.set(token, at);
      at += token.length;
    }
    return out;
  }

  specialId(text: string): number {
    const id = this.specials.get(text);
    if (id === undefined) throw new RangeError(`${JSON.stringify(text)} is no special token`);
    return id;
  }
}

/** The same tokenizer with no added tokens, so that nothing is special. */
function ordinaryTokenizer(json: string): Tokenizer {
  const file = JSON.parse(json) as TokenizerFile;
  return Tokenizer.fromString(JSON.stringify({ ...file, added_tokens: [] }));
}

/** Matches any of the texts, the longest first, and nothing when there are none. */
export function anyOf(texts: readonly string[], flags = ""): RegExp {
  if (texts.length === 0) return /(?!)/;
  const longestFirst = [...texts].sort((a, b) => b.length - a.length);
  const spelled = longestFirst.map((text) => text.replace(/[|\\{}()[\]^$+*?./]/g, "\\$&"));
  return new RegExp(spelled.join("|"), flags);
}
