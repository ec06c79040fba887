/**
 * A byte-level BPE vocabulary out of a Hugging Face `tokenizer.json`: native encoding, a byte table of our own for
 * decoding. It holds no chat logic.
 *
 * V1. `encode` is the native tokenizer: a text that spells a special token gets that token.
 * V2. `encodeOrdinary` never yields a special id, and decodes back to its text (after the tokenizer's normalisation).
 * V3. `decodeBytes` is exact for every id, also for one that is no UTF-8 by itself.
 */
import { Tokenizer } from "tokenizers";
import { PolicyError } from "./errors.js";
import type { Vocabulary } from "./types.js";

export interface TokenizerFile {
  readonly model: {
    readonly type: string;
    readonly vocab: Record<string, number>;
    /** By rank; each is two tokens, joined by a blank in older files. */
    readonly merges: readonly (string | readonly [string, string])[];
  };
  /** Entries of `model.vocab`, listed once: there are as many as tokens. */
  readonly tokens: readonly (readonly [string, number])[];
  readonly pre_tokenizer: unknown;
  readonly added_tokens: readonly { readonly id: number; readonly content: string }[];
}

/** The byte behind each character of a byte-level token: GPT-2's table, which keeps printable Latin-1 and moves the rest up. */
function byteOfCharacter(): Uint8Array {
  const table = new Uint8Array(2 ** 16);
  let moved = 0;
  for (let byte = 0; byte < 256; byte++) {
    const kept = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    table[kept ? byte : 256 + moved++] = byte;
  }
  return table;
}

/** Bytes of every id in one buffer: id `i` has `bytes[starts[i] … starts[i + 1])`. */
function byteTable(file: TokenizerFile, size: number): { bytes: Uint8Array; starts: Uint32Array } {
  const byteOf = byteOfCharacter();
  const spelled = new Array<string | Uint8Array>(size).fill("");
  for (const [text, id] of file.tokens) spelled[id] = text;
  for (const token of file.added_tokens) spelled[token.id] = Buffer.from(token.content);
  const starts = new Uint32Array(size + 1);
  // One character of a byte-level token is one byte, so lengths are known before decoding.
  for (let id = 0; id < size; id++) starts[id + 1] = (starts[id] ?? 0) + (spelled[id]?.length ?? 0);
  const bytes = new Uint8Array(starts[size] ?? 0);
  spelled.forEach((token, id) => {
    const start = starts[id] ?? 0;
    if (typeof token !== "string") bytes.set(token, start);
    else
      for (let at = 0; at < token.length; at++)
        bytes[start + at] = byteOf[token.charCodeAt(at)] ?? 0;
  });
  return { bytes, starts };
}

/** @throws PolicyError `VOCABULARY_UNREADABLE` when the text is no `tokenizer.json` with byte-level BPE. */
export function parseTokenizerFile(json: string): TokenizerFile {
  let file: Partial<TokenizerFile>;
  try {
    file = JSON.parse(json) as Partial<TokenizerFile>;
  } catch (cause) {
    throw new PolicyError("VOCABULARY_UNREADABLE", "tokenizer.json is no JSON", { cause });
  }
  if (
    file.model?.type !== "BPE" ||
    !JSON.stringify(file.pre_tokenizer ?? null).includes('"ByteLevel"')
  )
    throw new PolicyError(
      "VOCABULARY_UNREADABLE",
      `tokenizer.json has model.type ${JSON.stringify(file.model?.type)} and no byte-level pre-tokenizer; only byte-level BPE is read`,
    );
  const tokens = Object.entries(file.model.vocab);
  return { added_tokens: [], ...file, tokens } as TokenizerFile;
}

/** See the module header. Immutable but for tokenizers that are built when a text first needs them. */
export class ByteLevelVocabulary implements Vocabulary {
  readonly size: number;
  readonly specials: ReadonlyMap<string, number>;
  readonly #json: string;
  #native: Tokenizer | undefined;
  readonly #bytes: Uint8Array;
  readonly #starts: Uint32Array;
  readonly #special: RegExp;
  #ordinary: Tokenizer | undefined;

  /**
   * @param json text of a `tokenizer.json`.
   * @param file the same, parsed.
   * @param lazily true: the native tokenizer, a second of work, is built when a text first needs it.
   * @throws PolicyError `VOCABULARY_UNREADABLE` when it is none with byte-level BPE.
   */
  constructor(json: string, file: TokenizerFile = parseTokenizerFile(json), lazily = false) {
    this.#json = json;
    if (!lazily) this.#native = Tokenizer.fromString(json);
    this.specials = new Map(file.added_tokens.map((token) => [token.content, token.id]));
    this.#special = anyOf([...this.specials.keys()]);
    let size = 0;
    for (const [, id] of file.tokens) size = Math.max(size, id + 1);
    for (const { id } of file.added_tokens) size = Math.max(size, id + 1);
    this.size = size;
    ({ bytes: this.#bytes, starts: this.#starts } = byteTable(file, size));
  }

  async encode(text: string): Promise<Int32Array> {
    this.#native ??= Tokenizer.fromString(this.#json);
    const encoding = await this.#native.encode(text, null, { addSpecialTokens: false });
    return Int32Array.from(encoding.getIds());
  }

  async encodeOrdinary(text: string): Promise<Int32Array> {
    if (!this.spellsSpecial(text)) return this.encode(text);
    this.#ordinary ??= ordinaryTokenizer(this.#json);
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
