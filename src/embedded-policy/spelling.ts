/**
 * The tokens that may continue one grammar string, at each position. A pure function of the string, found once: the
 * same strings come again in every call.
 */

/** ε. At .012 about a quarter of completions of 20 to 30 tokens hold a split that re-encoding would not give. */
const SPLIT_SHARE = 0.012;

/** Longest token text tried. */
const MAX_TOKEN_LENGTH = 24;

/** One token that continues a string. */
export interface Step {
  readonly id: number;
  /** Of its text. */
  readonly length: number;
  readonly probability: number;
}

export class Spelling {
  readonly #text: string;
  readonly #idOf: (text: string) => number | undefined;
  /** Length of the canonical token that starts at each position. */
  readonly #canonical = new Map<number, number>();
  readonly #steps: (readonly Step[] | undefined)[] = [];

  /** @param tokens The texts of the string's canonical tokens. */
  constructor(text: string, tokens: readonly string[], idOf: (text: string) => number | undefined) {
    this.#text = text;
    this.#idOf = idOf;
    let at = 0;
    for (const token of tokens) {
      this.#canonical.set(at, token.length);
      at += token.length;
    }
  }

  /** Tokens that fit at the position, shortest first. At least one before the end: every byte is a token. */
  stepsAt(position: number): readonly Step[] {
    this.#steps[position] ??= this.#find(position);
    return this.#steps[position];
  }

  #find(position: number): Step[] {
    const fits: { id: number; length: number }[] = [];
    const longest = Math.min(MAX_TOKEN_LENGTH, this.#text.length - position);
    for (let length = 1; length <= longest; length++) {
      const id = this.#idOf(this.#text.slice(position, position + length));
      if (id !== undefined) fits.push({ id, length });
    }
    // Off the canonical path the longest token stands in for the canonical one.
    const favourite = this.#canonical.get(position) ?? fits.at(-1)?.length;
    const others = fits.length - 1;
    return fits.map((fit) => ({
      ...fit,
      probability:
        others === 0 ? 1 : fit.length === favourite ? 1 - SPLIT_SHARE : SPLIT_SHARE / others,
    }));
  }
}
