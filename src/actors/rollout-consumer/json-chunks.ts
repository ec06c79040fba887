/**
 * JSON in pieces, so that a row of many million tokens is written without ever being one string.
 *
 * K1. The pieces together are what `JSON.stringify` gives, but for typed arrays: those are written as arrays of numbers.
 * K2. A number in a typed array that JSON cannot say (NaN, infinite) is an error, never a null.
 */
const CHUNK_BYTES = 256 * 1024;
/** Most values are short: memory grows with what is written. */
const FIRST_CHUNK_BYTES = 8 * 1024;
/** Longest number in JSON: `-1.2345678901234567e-308` and a comma. */
const MAX_NUMBER_BYTES = 32;

/** Contract: a piece is valid until the next one is asked for; its memory is used again. */
export function* jsonChunks(value: unknown): Generator<Uint8Array, void, undefined> {
  const out = new ChunkBuffer();
  yield* writeValue(value, out);
  if (out.used > 0) yield out.take();
}

class ChunkBuffer {
  bytes = Buffer.allocUnsafe(FIRST_CHUNK_BYTES);
  used = 0;

  /** True when that many bytes more would not fit. */
  isFull(bytes: number): boolean {
    return this.used + bytes > this.bytes.length;
  }

  take(): Uint8Array {
    const taken = this.bytes.subarray(0, this.used);
    const { length } = this.bytes;
    if (length < CHUNK_BYTES) this.bytes = Buffer.allocUnsafe(2 * length);
    this.used = 0;
    return taken;
  }

  byte(code: number): void {
    this.bytes[this.used] = code;
    this.used += 1;
  }

  /** Contract: `isFull(MAX_NUMBER_BYTES)` is false. */
  number(value: number): void {
    if (value >= 0 && value <= 0x7fff_ffff && Number.isInteger(value)) this.#digits(value);
    else if (Number.isFinite(value)) this.used += this.bytes.write(String(value), this.used);
    else throw new TypeError(`${value} has no JSON form`); // K2
  }

  /** A token id in a few nanoseconds; `String` takes many times as long. */
  #digits(value: number): void {
    let end = this.used + 1;
    for (let rest = value; rest >= 10; rest = (rest / 10) | 0) end += 1;
    this.used = end;
    let rest = value | 0;
    do {
      end -= 1;
      this.bytes[end] = 0x30 + (rest % 10);
      rest = (rest / 10) | 0;
    } while (rest > 0);
  }
}

type Pieces = Generator<Uint8Array, void, undefined>;

function* writeValue(value: unknown, out: ChunkBuffer): Pieces {
  if (isNumbers(value)) yield* writeNumbers(value, out);
  else if (Array.isArray(value)) yield* writeArray(value, out);
  else if (isPlainObject(value)) yield* writeObject(value, out);
  else yield* writeText(JSON.stringify(value) ?? "null", out);
}

function* writeNumbers(values: Int32Array | Float64Array, out: ChunkBuffer): Pieces {
  yield* writeText("[", out);
  for (let index = 0; index < values.length; index += 1) {
    if (out.isFull(MAX_NUMBER_BYTES)) yield out.take();
    if (index > 0) out.byte(0x2c);
    out.number(values[index] as number);
  }
  yield* writeText("]", out);
}

function* writeArray(values: readonly unknown[], out: ChunkBuffer): Pieces {
  yield* writeText("[", out);
  for (let index = 0; index < values.length; index += 1) {
    if (index > 0) yield* writeText(",", out);
    yield* writeValue(values[index], out);
  }
  yield* writeText("]", out);
}

function* writeObject(object: Readonly<Record<string, unknown>>, out: ChunkBuffer): Pieces {
  let separator = "{";
  for (const [key, value] of Object.entries(object)) {
    if (value === undefined || typeof value === "function" || typeof value === "symbol") continue;
    yield* writeText(`${separator}${JSON.stringify(key)}:`, out);
    yield* writeValue(value, out);
    separator = ",";
  }
  yield* writeText(separator === "{" ? "{}" : "}", out);
}

function* writeText(text: string, out: ChunkBuffer): Pieces {
  // A UTF-16 unit takes at most three bytes.
  if (out.isFull(3 * text.length)) {
    if (out.used > 0) yield out.take();
    if (out.isFull(3 * text.length)) {
      yield Buffer.from(text);
      return;
    }
  }
  out.used += out.bytes.write(text, out.used);
}

function isNumbers(value: unknown): value is Int32Array | Float64Array {
  return value instanceof Int32Array || value instanceof Float64Array;
}

function isPlainObject(value: unknown): value is Record<string, unknown> {
  if (typeof value !== "object" || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  const plain = prototype === Object.prototype || prototype === null;
  return plain && typeof (value as { toJSON?: unknown }).toJSON !== "function";
}
