/**
 * A generation cut at its marks.
 *
 * G1. A mark that is a special token of the vocabulary is found by id only: text that spells it is text. Only where the
 *     vocabulary has no such token is the mark looked for in the text.
 * G2. The segments' texts, joined, are the decoded generation.
 */
import type { Vocabulary } from "../../../embedded-policy/index.js";

export interface Segment {
  readonly text: string;
  /** The text is a mark, not merely its spelling. */
  readonly isMark: boolean;
}

export class Segmenter {
  readonly #vocabulary: Pick<Vocabulary, "decode">;
  readonly #byId: ReadonlyMap<number, string>;
  readonly #spelled: RegExp | null;

  constructor(vocabulary: Pick<Vocabulary, "decode" | "specials">, marks: readonly string[]) {
    this.#vocabulary = vocabulary;
    const byId = new Map<number, string>();
    const spelled: string[] = [];
    for (const mark of marks) {
      const id = vocabulary.specials.get(mark);
      if (id === undefined) spelled.push(mark);
      else byId.set(id, mark);
    }
    this.#byId = byId;
    this.#spelled =
      spelled.length === 0 ? null : new RegExp(`(${spelled.map(escapeRegExp).join("|")})`);
  }

  segments(ids: Int32Array): Segment[] {
    const segments: Segment[] = [];
    let start = 0;
    for (let at = 0; at <= ids.length; at++) {
      const mark = at < ids.length ? this.#byId.get(ids[at] ?? -1) : undefined;
      if (mark === undefined && at < ids.length) continue;
      if (at > start) segments.push(...this.#textSegments(ids.subarray(start, at)));
      if (mark !== undefined) segments.push({ text: mark, isMark: true }); // G1
      start = at + 1;
    }
    return segments;
  }

  #textSegments(ids: Int32Array): Segment[] {
    const text = this.#vocabulary.decode(ids);
    if (this.#spelled === null) return [{ text, isMark: false }];
    return text
      .split(this.#spelled)
      .map((part, index) => ({ text: part, isMark: index % 2 === 1 }))
      .filter((part) => part.text !== "");
  }
}

export function joined(segments: readonly Segment[]): string {
  return segments.map(({ text }) => text).join("");
}

export function escapeRegExp(text: string): string {
  return text.replace(/[|\\{}()[\]^$+*?./-]/g, "\\$&");
}
