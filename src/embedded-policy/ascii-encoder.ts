/**
 * Synchronous encoding of ASCII text, which most prompts are. A call into the native tokenizer costs the calling thread
 * more than a short prompt is worth, and a way through the thread pool besides.
 *
 * T1. The ids are those of the native tokenizer, or null: text with any other character, or with a word so long that
 *     joining it would take quadratic time, is left to it.
 * T2. Two parts are joined only as the tokenizer's own merges join them, lowest rank first, then leftmost.
 */
import type { TokenIds } from "./vocabulary-tables.js";

const ASCII = /^[\t\n\r\x20-\x7e]*$/;

/** The pre-tokenizer pattern of Qwen3, on ASCII. */
const PIECES =
  /'(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL])|[^\r\nA-Za-z0-9]?[A-Za-z]+|[0-9]| ?[^\sA-Za-z0-9]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+/g;

const MAX_PIECE_LENGTH = 128;

/** Pieces kept; cleared when full, so a stream of unlike prompts cannot grow it. */
const CACHED_PIECES = 16_384;

export class AsciiEncoder {
  readonly #ids: Pick<TokenIds, "get">;
  readonly #joints: Uint8Array;
  readonly #cache = new Map<string, readonly number[]>();

  /** Of every token that is ASCII; in this vocabulary ids are merge ranks. @param joints see `VocabularyTables`. */
  constructor(ids: Pick<TokenIds, "get">, joints: Uint8Array) {
    this.#ids = ids;
    this.#joints = joints;
  }

  /** Ids of a text without special tokens; null when it is not for this encoder. */
  encode(text: string): number[] | null {
    if (!ASCII.test(text)) return null;
    const all: number[] = [];
    for (const piece of text.match(PIECES) ?? []) {
      const ids = this.#piece(piece);
      if (ids === null) return null;
      for (const id of ids) all.push(id);
    }
    return all;
  }

  #piece(piece: string): readonly number[] | null {
    const cached = this.#cache.get(piece);
    if (cached !== undefined) return cached;
    if (piece.length > MAX_PIECE_LENGTH) return null;
    const ids = this.#join([...piece]).map((part) => this.#ids.get(part) ?? -1);
    if (ids.includes(-1)) return null;
    if (this.#cache.size >= CACHED_PIECES) this.#cache.clear();
    this.#cache.set(piece, ids);
    return ids;
  }

  /** T2 */
  #join(parts: string[]): string[] {
    for (;;) {
      let best = Number.POSITIVE_INFINITY;
      let at = -1;
      for (let i = 0; i + 1 < parts.length; i++) {
        const left = parts[i] ?? "";
        const id = this.#ids.get(left + (parts[i + 1] ?? ""));
        if (id === undefined || id >= best || this.#joints[id] !== left.length) continue;
        best = id;
        at = i;
      }
      if (at < 0) return parts;
      parts.splice(at, 2, `${parts[at]}${parts[at + 1]}`);
    }
  }
}
