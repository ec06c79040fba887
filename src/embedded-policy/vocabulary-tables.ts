/** What a byte-level BPE vocabulary knows, in flat arrays made of a `tokenizer.json`. */
import type { TokenizerFile } from "./tokenizer-file.js";

/** Enough to decode. Immutable. */
export interface TokenBytes {
  /** Number of ids, special tokens included. */
  readonly size: number;
  /** Spelling and id of every special token. */
  readonly specials: readonly (readonly [string, number])[];
  /** Bytes of every id in one buffer: id `i` has `bytes[starts[i] … starts[i + 1])`. */
  readonly bytes: Uint8Array;
  /** uint32[size + 1]. */
  readonly starts: Uint32Array;
}

/** Enough to encode ASCII besides. Immutable. */
export interface VocabularyTables extends TokenBytes {
  /** int32[2^n], see `TokenIds`. */
  readonly slots: Int32Array;
  /** uint8, by id: where in the token's text the merge that makes it joins; 0 when none does. */
  readonly joints: Uint8Array;
}

export function vocabularyTables(file: TokenizerFile): VocabularyTables {
  const tokens = tokenBytes(file);
  return { ...tokens, slots: slotsOf(file, tokens), joints: jointsOf(file) };
}

export function tokenBytes(file: TokenizerFile): TokenBytes {
  let size = 0;
  for (const [, id] of file.tokens) size = Math.max(size, id + 1);
  for (const { id } of file.added_tokens) size = Math.max(size, id + 1);
  const specials = file.added_tokens.map(({ content, id }) => [content, id] as const);
  return { size, specials, ...byteTable(file, size) };
}

/** The byte behind each character of a byte-level token: GPT-2's table, which keeps printable Latin-1 and moves the rest up. */
function byteOfCharacter(): Uint8Array {
  const table = new Uint8Array(2 ** 16);
  let moved = 0;
  for (let byte = 0; byte < 256; byte++) {
    const kept = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    table[kept ? byte : 256 + moved++] = byte;
  }
  return table;
}

function byteTable(file: TokenizerFile, size: number): Pick<TokenBytes, "bytes" | "starts"> {
  const byteOf = byteOfCharacter();
  const spelled = new Array<string | Uint8Array>(size).fill("");
  for (const [text, id] of file.tokens) spelled[id] = text;
  for (const token of file.added_tokens) spelled[token.id] = Buffer.from(token.content);
  const starts = new Uint32Array(size + 1);
  // One character of a byte-level token is one byte, so lengths are known before decoding.
  for (let id = 0; id < size; id++) starts[id + 1] = (starts[id] ?? 0) + (spelled[id]?.length ?? 0);
  const bytes = new Uint8Array(starts[size] ?? 0);
  spelled.forEach((token, id) => {
    const start = starts[id] ?? 0;
    if (typeof token !== "string") bytes.set(token, start);
    else
      for (let at = 0; at < token.length; at++)
        bytes[start + at] = byteOf[token.charCodeAt(at)] ?? 0;
  });
  return { bytes, starts };
}

function slotsOf(file: TokenizerFile, { bytes, starts }: TokenBytes): Int32Array {
  const textOf = (id: number) => bytes.subarray(starts[id], starts[id + 1]);
  const ids = file.tokens.map(([, id]) => id).filter((id) => isAscii(textOf(id)));
  const slots = new Int32Array(2 ** Math.ceil(Math.log2(2 * ids.length + 2)));
  for (const id of ids) {
    const text = Buffer.from(textOf(id)).toString("latin1");
    let slot = hashOf(text) & (slots.length - 1);
    while (slots[slot] !== 0) slot = (slot + 1) & (slots.length - 1);
    slots[slot] = id + 1;
  }
  return slots;
}

function isAscii(text: Uint8Array): boolean {
  return text.every(
    (byte) => (byte >= 32 && byte <= 126) || byte === 9 || byte === 10 || byte === 13,
  );
}

export function jointsOf({ model: { merges, vocab } }: Pick<TokenizerFile, "model">): Uint8Array {
  const joints = new Uint8Array(256 + merges.length);
  for (const merge of merges) {
    const [left = "", right = ""] = typeof merge === "string" ? merge.split(" ") : merge;
    joints[vocab[left + right] ?? 0] = left.length;
  }
  return joints;
}

/** FNV-1a, 32 bits; mixed, because the low bits choose the slot. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  return hash ^ (hash >>> 15);
}

/** Ids of the ASCII tokens by their text, without a string for any of them. */
export class TokenIds {
  readonly #tables: VocabularyTables;
  readonly #marks: ReadonlyMap<string, number>;

  /** @param marks further texts, none of them ASCII. */
  constructor(tables: VocabularyTables, marks: ReadonlyMap<string, number> = new Map()) {
    this.#tables = tables;
    this.#marks = marks;
  }

  get(text: string): number | undefined {
    const { slots } = this.#tables;
    let slot = hashOf(text) & (slots.length - 1);
    for (;;) {
      const id = (slots[slot] ?? 0) - 1;
      if (id < 0) return this.#marks.get(text);
      if (this.#spells(id, text)) return id;
      slot = (slot + 1) & (slots.length - 1);
    }
  }

  #spells(id: number, text: string): boolean {
    const { bytes, starts } = this.#tables;
    const start = starts[id] ?? 0;
    if ((starts[id + 1] ?? 0) - start !== text.length) return false;
    for (let at = 0; at < text.length; at++)
      if (bytes[start + at] !== text.charCodeAt(at)) return false;
    return true;
  }
}
