/**
 * Long lists of token ids in JSON, read and written as bytes. A prompt of 300,000 ids goes to the engine, and often comes
 * back, with every call; as a list of numbers it would cost more than all the rest of the call.
 *
 * D1. What is lifted out of an answer is exactly what `JSON.parse` would read; anything that is not plainly a list of
 *     ids is left to it.
 */

const ZERO = 48;
const NINE = 57;
const COMMA = 44;
const OPEN = 91;
const CLOSE = 93;
const BACKSLASH = 92;

/** Ten digits and a comma. */
const MAX_ID_BYTES = 11;
const MAX_ID = 2 ** 31 - 1;

/** A JSON body with a long list of ids in it: an object, whose first member is the list. */
export class BodyWithIds {
  /** UTF-8. */
  readonly bytes: Buffer;
  readonly ids: Int32Array;
  /** The part of `bytes` that is the list, brackets included. */
  readonly list: Buffer;

  /** Contract: no id is negative. */
  constructor(key: string, ids: Int32Array, rest: object) {
    const before = `{${JSON.stringify(key)}:[`;
    const after = `],${JSON.stringify(rest).slice(1)}`;
    const spare = Buffer.byteLength(before) + Buffer.byteLength(after);
    const bytes = Buffer.allocUnsafe(spare + ids.length * MAX_ID_BYTES);
    const start = bytes.write(before) - 1;
    let end = start + 1;
    for (let i = 0; i < ids.length; i++) {
      if (i > 0) bytes[end++] = COMMA;
      end = writeId(bytes, end, ids[i] ?? 0);
    }
    this.ids = ids;
    this.list = bytes.subarray(start, end + 1);
    this.bytes = bytes.subarray(0, end + bytes.write(after, end));
  }
}

/** The digits of 000 to 999, one after the other. */
const DIGITS = Buffer.from(
  Array.from({ length: 1000 }, (_, n) => String(n).padStart(3, "0")).join(""),
);

/** Three digits at a time: one division for each of them costs twice as much. */
function writeId(bytes: Buffer, at: number, id: number): number {
  let end = at;
  let rest = id;
  if (id >= 1000) {
    const thousands = (id / 1000) | 0;
    end = writeId(bytes, at, thousands);
    rest = id - 1000 * thousands;
  }
  const from = 3 * rest;
  if (id >= 100) bytes[end++] = DIGITS[from] ?? ZERO;
  if (id >= 10) bytes[end++] = DIGITS[from + 1] ?? ZERO;
  bytes[end++] = DIGITS[from + 2] ?? ZERO;
  return end;
}

/** A list that was taken out of JSON. */
export interface LiftedIds {
  /** int32[n]. */
  readonly ids: Int32Array;
  /** The JSON before the list's first bracket. */
  readonly before: Buffer;
  /** The JSON behind its last one. */
  readonly after: Buffer;
}

/**
 * The first list of ids under the key; null when there is none. Contract: the key needs no escape.
 * @param sent a list that is probably repeated: where it is, byte for byte, it is not read again.
 */
export function liftIds(json: Buffer, key: string, sent?: BodyWithIds): LiftedIds | null {
  const name = JSON.stringify(key);
  for (let at = json.indexOf(name); at >= 0; at = json.indexOf(name, at + name.length)) {
    // Within a string this quote would have a backslash before it.
    if (json[at - 1] === BACKSLASH) continue;
    const start = afterColon(json, at + name.length);
    const list =
      json[start] === OPEN ? (repeated(json, start, sent) ?? readList(json, start + 1)) : null;
    if (list !== null)
      return { ids: list.ids, before: json.subarray(0, start), after: json.subarray(list.end) };
  }
  return null;
}

function repeated(
  json: Buffer,
  start: number,
  sent: BodyWithIds | undefined,
): { ids: Int32Array; end: number } | null {
  if (sent === undefined) return null;
  const end = start + sent.list.length;
  return sent.list.equals(json.subarray(start, end)) ? { ids: sent.ids, end } : null;
}

function isBlank(byte: number | undefined): boolean {
  return byte === 32 || byte === 10 || byte === 13 || byte === 9;
}

function skipBlanks(json: Buffer, from: number): number {
  let at = from;
  while (isBlank(json[at])) at += 1;
  return at;
}

/** Where the key's value begins; the end of the text when no colon follows. */
function afterColon(json: Buffer, from: number): number {
  const colon = skipBlanks(json, from);
  return json[colon] === 58 ? skipBlanks(json, colon + 1) : json.length;
}

/** D1. Null at the first byte that a plain list of int32 would not have. */
function readList(json: Buffer, from: number): { ids: Int32Array; end: number } | null {
  let ids = new Int32Array(1024);
  let count = 0;
  let at = skipBlanks(json, from);
  if (json[at] === CLOSE) return { ids: ids.slice(0, 0), end: at + 1 };
  for (;;) {
    const start = at;
    let id = 0;
    let byte = json[at] ?? 0;
    while (byte >= ZERO && byte <= NINE) {
      id = 10 * id + byte - ZERO;
      at += 1;
      byte = json[at] ?? 0;
    }
    // No digit, more digits than an id has, or a zero before others.
    if (at === start || id > MAX_ID || (json[start] === ZERO && at > start + 1)) return null;
    if (count === ids.length) ids = grown(ids);
    ids[count++] = id;
    if (isBlank(byte)) at = skipBlanks(json, at);
    const next = json[at];
    if (next === CLOSE) return { ids: ids.slice(0, count), end: at + 1 };
    if (next !== COMMA) return null;
    at += 1;
    if (isBlank(json[at])) at = skipBlanks(json, at);
  }
}

function grown(ids: Int32Array): Int32Array<ArrayBuffer> {
  const larger = new Int32Array(2 * ids.length);
  larger.set(ids);
  return larger;
}
