/**
 * Synchronous byte-pair encoding of grammar strings: short, printable ASCII, known before a token is drawn.
 *
 * It is no tokenizer for prompts: those go through the native library, which is asynchronous and knows Unicode.
 * A special token is one private-use character here, a "mark", so that a grammar string is a plain string and content
 * that spells `<|im_end|>` stays letters.
 *
 * B1. For printable ASCII and `\n` the ids are those of the native tokenizer.
 * B2. A mark is always its own token and never joins its neighbours.
 */
import { Spelling } from "./spelling.js";
import type { TokenIds } from "./vocabulary-tables.js";

/** Stands for `<|im_end|>` in a grammar string. */
export const END_MARK = "\uE000";
/** Stands for `<tool_call>`. */
export const CALL_MARK = "\uE001";
/** Stands for `</tool_call>`. */
export const CALL_END_MARK = "\uE002";

/** What the marks stand for. */
export const MARKED_SPECIALS: readonly (readonly [mark: string, special: string])[] = [
  [END_MARK, "<|im_end|>"],
  [CALL_MARK, "<tool_call>"],
  [CALL_END_MARK, "</tool_call>"],
];

/** The pre-tokenizer pattern of Qwen3, which JavaScript spells without the `(?i:)` group. One mark is one piece (B2). */
const PIECES =
  /[\uE000-\uE002]|'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]|[^\r\n\p{L}\p{N}\uE000-\uE002]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}\uE000-\uE002]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+/gu;

/** Pieces kept; cleared when full, so a stream of unlike prompts cannot grow it. */
const CACHED_PIECES = 16_384;

/** Grammar strings kept, those up to this length; cleared when full. */
const CACHED_SPELLINGS = 512;
const CACHED_SPELLING_LENGTH = 256;

/** Spells grammar strings in vocabulary tokens. */
export class Speller {
  readonly #ids: Pick<TokenIds, "get">;
  readonly #cache = new Map<string, readonly string[]>();
  readonly #spellings = new Map<string, Spelling>();

  /** `ids` knows every ASCII token and every mark. */
  constructor(ids: Pick<TokenIds, "get">) {
    this.#ids = ids;
  }

  /** The id of a token with exactly this text. */
  idOf(text: string): number | undefined {
    return this.#ids.get(text);
  }

  /** The texts of the canonical tokens, in order; joined they are the text. */
  canonical(text: string): string[] {
    const tokens: string[] = [];
    for (const [piece] of text.matchAll(PIECES)) tokens.push(...this.#piece(piece));
    return tokens;
  }

  /** The ways to spell a text. */
  spelling(text: string): Spelling {
    const cached = this.#spellings.get(text);
    if (cached !== undefined) return cached;
    const found = new Spelling(text, this.canonical(text), (token) => this.#ids.get(token));
    if (text.length > CACHED_SPELLING_LENGTH) return found;
    if (this.#spellings.size >= CACHED_SPELLINGS) this.#spellings.clear();
    this.#spellings.set(text, found);
    return found;
  }

  #piece(piece: string): readonly string[] {
    const cached = this.#cache.get(piece);
    if (cached) return cached;
    const tokens = this.#merge([...piece]);
    if (this.#cache.size >= CACHED_PIECES) this.#cache.clear();
    this.#cache.set(piece, tokens);
    return tokens;
  }

  /** Joins, again and again, the leftmost pair whose joined token has the lowest id: in this vocabulary ids are merge ranks. */
  #merge(parts: string[]): string[] {
    for (;;) {
      let best = Number.POSITIVE_INFINITY;
      let at = -1;
      for (let i = 0; i + 1 < parts.length; i++) {
        const rank = this.#ids.get(`${parts[i]}${parts[i + 1]}`);
        if (rank !== undefined && rank < best) {
          best = rank;
          at = i;
        }
      }
      if (at < 0) return parts;
      parts.splice(at, 2, `${parts[at]}${parts[at + 1]}`);
    }
  }
}
