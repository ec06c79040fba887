/** A Hugging Face `tokenizer.json` as far as it is read here. */
import { PolicyError } from "./errors.js";

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
