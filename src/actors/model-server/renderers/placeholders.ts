/**
 * Keeps strings from outside out of a chat template, and puts them back as pieces that are known to be content.
 *
 * H1. A placeholder cannot be guessed by whoever wrote the content, so no content is taken for another's placeholder.
 * H2. The blanks that the template strips from some fields stay outside, so that the result is the template's own.
 */
import { randomBytes } from "node:crypto";
import { templateJson } from "./normalise.js";

/** A stretch of rendered text: the template's own (with unguarded strings), or guarded content. */
export interface Piece {
  readonly text: string;
  readonly isContent: boolean;
}

export class Placeholders {
  #drawn: string | undefined;
  readonly #texts: string[] = [];
  readonly #isEdge: (character: string) => boolean;

  /** @param isEdge which characters at the ends of a text the template may strip. */
  constructor(isEdge: (character: string) => boolean) {
    this.#isEdge = isEdge;
  }

  /** H1. Most prompts need none. */
  get #nonce(): string {
    this.#drawn ??= `p${randomBytes(16).toString("hex")}`;
    return this.#drawn;
  }

  get isEmpty(): boolean {
    return this.#texts.length === 0;
  }

  /** A string that stands for the text in the template's input; "" stays "". */
  replace(text: string): string {
    const [start, end] = withoutEdges(text, this.#isEdge);
    if (start === end) return text;
    return `${text.slice(0, start)}${this.#add(text.slice(start, end), "s")}${text.slice(end)}`; // H2
  }

  /** A string for one within a value: where the template writes it through `tojson`, its JSON text replaces it. */
  replaceInValue(text: string): string {
    return this.#add(text, "v");
  }

  split(rendered: string): Piece[] {
    const pattern = new RegExp(`"${this.#nonce}v(\\d+)e"|${this.#nonce}[sv](\\d+)e`);
    const parts = rendered.split(pattern);
    const pieces: Piece[] = [];
    // `split` yields template, index of a quoted one, index of a bare one, template, …
    for (let i = 0; i < parts.length; i += 3) {
      pieces.push({ text: parts[i] ?? "", isContent: false });
      const [quoted, bare] = [parts[i + 1], parts[i + 2]];
      const text = this.#texts[Number(quoted ?? bare)];
      if (text === undefined) continue;
      pieces.push({ text: quoted === undefined ? text : templateJson(text), isContent: true });
    }
    return pieces;
  }

  #add(text: string, kind: "s" | "v"): string {
    this.#texts.push(text);
    return `${this.#nonce}${kind}${this.#texts.length - 1}e`;
  }
}

/** Start and end of a text without the blanks at its ends. A loop: `/\n+$/` is quadratic. */
export function withoutEdges(
  text: string,
  isEdge: (character: string) => boolean,
): [start: number, end: number] {
  let start = 0;
  let end = text.length;
  while (start < end && isEdge(text.charAt(start))) start += 1;
  while (end > start && isEdge(text.charAt(end - 1))) end -= 1;
  return [start, end];
}
