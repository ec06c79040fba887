/**
 * Keeps strings from outside out of a chat template, and puts them back as pieces that are known to be content.
 *
 * H1. A placeholder cannot be guessed by whoever wrote the content, so no content is taken for another's placeholder.
 * H2. Leading and trailing line breaks stay outside: templates strip them from some fields, and the result must be
 *     the template's own.
 */
import { randomBytes } from "node:crypto";

/** A stretch of rendered text: the template's own (with unguarded strings), or guarded content. */
export interface Piece {
  readonly text: string;
  readonly isContent: boolean;
}

export class Placeholders {
  readonly #nonce = `p${randomBytes(16).toString("hex")}`; // H1
  readonly #texts: string[] = [];

  get isEmpty(): boolean {
    return this.#texts.length === 0;
  }

  /** A string that stands for the text in the template's input; "" stays "". */
  replace(text: string): string {
    const [start, end] = betweenLineBreaks(text);
    if (start === end) return text;
    return `${text.slice(0, start)}${this.#add(text.slice(start, end), "s")}${text.slice(end)}`; // H2
  }

  /** A string for a value that the template writes through `tojson`; the JSON text replaces it, quotes included. */
  replaceJson(jsonText: string): string {
    return this.#add(jsonText, "j");
  }

  split(rendered: string): Piece[] {
    const pattern = new RegExp(`"${this.#nonce}j(\\d+)e"|${this.#nonce}s(\\d+)e`);
    const parts = rendered.split(pattern);
    const pieces: Piece[] = [];
    // `split` yields template, json index, string index, template, …
    for (let i = 0; i < parts.length; i += 3) {
      pieces.push({ text: parts[i] ?? "", isContent: false });
      const index = parts[i + 1] ?? parts[i + 2];
      if (index !== undefined)
        pieces.push({ text: this.#texts[Number(index)] ?? "", isContent: true });
    }
    return pieces;
  }

  #add(text: string, kind: "s" | "j"): string {
    this.#texts.push(text);
    return `${this.#nonce}${kind}${this.#texts.length - 1}e`;
  }
}

/** Start and end of a text without its leading and trailing line breaks. A loop: `/\n+$/` is quadratic. */
export function betweenLineBreaks(text: string): [start: number, end: number] {
  let start = 0;
  let end = text.length;
  while (text[start] === "\n") start += 1;
  while (end > start && text[end - 1] === "\n") end -= 1;
  return [start, end];
}
