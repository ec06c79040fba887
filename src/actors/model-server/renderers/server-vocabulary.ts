/**
 * A vocabulary that only a server has: texts become ids there, and what an id spells is learned from its answers.
 *
 * V1. Nothing is known of an id until the server has spelled it: decoding one that it has not throws.
 * V2. `encodeOrdinary` never yields a special id. Some servers turn tokens that a model's author defined (`<tool_call>`)
 *     into their ids even where nothing is to be special; such a text is cut in two before it is sent.
 */
import type { Vocabulary } from "../../../embedded-policy/index.js";
import { escapeRegExp } from "./segments.js";

/** Ids of a text; `specials` says whether special-token text becomes special tokens. */
export type Tokenize = (text: string, specials: boolean) => Promise<readonly number[]>;

export interface ServerVocabularyOptions {
  /** Texts that may be special tokens; those that are not are left out. */
  readonly candidates: Iterable<string>;
  /** Every id is below it. */
  readonly size: number;
}

export class ServerVocabulary implements Vocabulary {
  readonly size: number;
  readonly specials: ReadonlyMap<string, number>;
  readonly #tokenize: Tokenize;
  /** Specials that are recognised everywhere; null when there are none. */
  readonly #everywhere: RegExp | null;
  readonly #bytes = new Map<number, Uint8Array>();

  private constructor(
    tokenize: Tokenize,
    size: number,
    specials: ReadonlyMap<string, number>,
    everywhere: readonly string[],
  ) {
    this.#tokenize = tokenize;
    this.size = size;
    this.specials = specials;
    const longestFirst = [...everywhere].sort((a, b) => b.length - a.length).map(escapeRegExp);
    this.#everywhere = everywhere.length === 0 ? null : new RegExp(longestFirst.join("|"), "g");
    for (const [text, id] of specials) this.#bytes.set(id, Buffer.from(text));
  }

  /** Asks the server which of the candidates are special tokens. */
  static async open(
    tokenize: Tokenize,
    { candidates, size }: ServerVocabularyOptions,
  ): Promise<ServerVocabulary> {
    const specials = new Map<string, number>();
    const everywhere: string[] = [];
    for (const text of new Set(candidates)) {
      const [special, plain] = [await tokenize(text, true), await tokenize(text, false)];
      const [id] = special;
      if (special.length !== 1 || id === undefined) continue;
      // A word of the vocabulary is one token too, but an author defines only what stands in angle brackets.
      const isPlain = plain.length === 1 && plain[0] === id;
      if (isPlain && !/^<.*>$/.test(text)) continue;
      specials.set(text, id);
      if (isPlain) everywhere.push(text);
    }
    return new ServerVocabulary(tokenize, size, specials, everywhere);
  }

  /** Contract: `bytes` are what the server says the id spells. */
  learn(id: number, bytes: Uint8Array): void {
    if (!this.#bytes.has(id)) this.#bytes.set(id, bytes);
  }

  async encode(text: string): Promise<Int32Array> {
    return Int32Array.from(text === "" ? [] : await this.#tokenize(text, true));
  }

  async encodeOrdinary(text: string): Promise<Int32Array> {
    const parts = await Promise.all(
      this.#withoutSpecials(text).map((part) => this.#tokenize(part, false)),
    );
    const ids = Int32Array.from(parts.flat());
    const special = ids.find((id) => this.#isSpecial(id));
    if (special !== undefined)
      throw new Error(`the server made the special token ${special} of plain text`); // V2
    return ids;
  }

  /** The server knows special tokens that we do not, so every text may spell one. */
  spellsSpecial(text: string): boolean {
    return text !== "";
  }

  decode(ids: Int32Array | readonly number[]): string {
    return Buffer.from(this.decodeBytes(ids)).toString("utf8");
  }

  decodeBytes(ids: Int32Array | readonly number[]): Uint8Array {
    return Buffer.concat(
      Array.from(ids, (id) => {
        const bytes = this.#bytes.get(id);
        if (bytes === undefined) throw new RangeError(`the server has not spelled token ${id}`); // V1
        return bytes;
      }),
    );
  }

  specialId(text: string): number {
    const id = this.specials.get(text);
    if (id === undefined) throw new RangeError(`${JSON.stringify(text)} is no special token`);
    return id;
  }

  #isSpecial(id: number): boolean {
    for (const special of this.specials.values()) if (special === id) return true;
    return false;
  }

  /** V2 */
  #withoutSpecials(text: string): string[] {
    if (text === "") return [];
    if (this.#everywhere === null) return [text];
    const parts: string[] = [];
    let from = 0;
    for (const { index } of text.matchAll(this.#everywhere)) {
      parts.push(text.slice(from, index + 1));
      from = index + 1;
    }
    return [...parts, text.slice(from)];
  }
}
