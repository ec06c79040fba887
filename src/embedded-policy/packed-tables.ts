/**
 * The tables of a vocabulary as one file. A worker that parses Qwen3's `tokenizer.json` spends most of its start on it,
 * and 100 MB on strings; `npm run build` packs the tables once, and whoever finds no pack parses.
 *
 * P1. Tables that are read are those that were packed, or none: the pack is digested, and names the digest of the file
 *     that it was made of.
 */
import { createHash } from "node:crypto";
import { closeSync, openSync, readSync } from "node:fs";
import { TokenIds, type VocabularyTables } from "./vocabulary-tables.js";

/** Of the file and of what the tables mean: a change of `hashOf`, `slotsOf` or `jointsOf` moves it. */
const FORMAT = 1;

/** The first line, beside `digest`: sha256, hex, of these and of all that follows the line. */
interface PackHead {
  readonly format: number;
  /** sha256, hex, of the `tokenizer.json`. */
  readonly source: string;
  readonly size: number;
  readonly specials: readonly (readonly [string, number])[];
  /** Bytes of starts, slots, bytes, joints, in this order. */
  readonly lengths: readonly number[];
}

export function packTables(tables: VocabularyTables, source: string): Uint8Array {
  const { size, specials, starts, slots, bytes, joints } = tables;
  const parts = [starts, slots, bytes, joints].map((array) =>
    Buffer.from(array.buffer, array.byteOffset, array.byteLength),
  );
  const body = Buffer.concat(parts);
  const lengths = parts.map((part) => part.length);
  const head: PackHead = { format: FORMAT, source, size, specials, lengths };
  const line = JSON.stringify({ ...head, digest: digestOf(head, body) });
  return Buffer.concat([Buffer.from(`${line}\n`), body]);
}

/** Undefined when the pack is damaged, or was made of another file (P1). */
export function unpackTables(pack: Uint8Array, source: string): VocabularyTables | undefined {
  const end = pack.indexOf(10);
  let line: Partial<PackHead & { readonly digest: string }> | null;
  try {
    line = JSON.parse(Buffer.from(pack.subarray(0, end)).toString()) as typeof line;
  } catch {
    return undefined;
  }
  const { digest, ...rest } = line ?? {};
  const head = rest as PackHead;
  // A copy, so that the arrays of wider numbers are aligned.
  const body = new Uint8Array(pack.subarray(end + 1));
  if (head.format !== FORMAT || head.source !== source || digest !== digestOf(head, body))
    return undefined;
  const { buffer } = body;
  const [starts = 0, slots = 0, bytes = 0, joints = 0] = head.lengths;
  const tables = {
    size: head.size,
    specials: head.specials,
    starts: new Uint32Array(buffer, 0, starts / 4),
    slots: new Int32Array(buffer, starts, slots / 4),
    bytes: new Uint8Array(buffer, starts + slots, bytes),
    joints: new Uint8Array(buffer, starts + slots + bytes, joints),
  };
  return findsItself(tables) ? tables : undefined;
}

/** A sample of the tokens is found where this code looks for them. */
function findsItself(tables: VocabularyTables): boolean {
  const ids = new TokenIds(tables);
  const { slots, bytes, starts } = tables;
  for (let slot = 0; slot < slots.length; slot += SAMPLED) {
    const id = (slots[slot] ?? 0) - 1;
    const text = Buffer.from(bytes.subarray(starts[id], starts[id + 1])).toString("latin1");
    if (id >= 0 && ids.get(text) !== id) return false;
  }
  return true;
}

/** Slots between two that are looked at. */
const SAMPLED = 64;

function digestOf(head: PackHead, body: Uint8Array): string {
  return createHash("sha256").update(JSON.stringify(head)).update(body).digest("hex");
}

/** Reads in parts: each worker digests a file of many megabytes when it starts. */
export function sha256OfFile(path: string): string {
  const hash = createHash("sha256");
  const part = Buffer.allocUnsafe(2 ** 18);
  const file = openSync(path, "r");
  try {
    for (let read = -1; read !== 0; ) {
      read = readSync(file, part);
      hash.update(part.subarray(0, read));
    }
  } finally {
    closeSync(file);
  }
  return hash.digest("hex");
}

export function sha256(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}
