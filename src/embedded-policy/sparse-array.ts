/**
 * A mostly-zero float64 array over the weights in few bytes: Brotli of uint32[count] gaps between indices and
 * float64[count] values, both in byte planes (all first bytes, all second, …).
 */
import { randomUUID } from "node:crypto";
import { rename, rm, writeFile } from "node:fs/promises";
import { brotliCompressSync, brotliDecompressSync } from "node:zlib";
import type { PolicyError } from "./errors.js";
import { WEIGHT_COUNT } from "./features.js";

const ENTRY_BYTES = 12;

/** Makes the error that names the file. */
export type Invalid = (what: string, cause?: unknown) => PolicyError;

export interface SparseArray {
  /** Values that are not 0. */
  readonly count: number;
  readonly bytes: Buffer;
}

export function encodeSparse(array: Float64Array): SparseArray {
  const indices: number[] = [];
  array.forEach((value, index) => {
    if (value !== 0) indices.push(index);
  });
  const gaps = Uint32Array.from(indices, (index, i) => index - (indices[i - 1] ?? 0));
  const values = Float64Array.from(indices, (index) => array[index] ?? 0);
  const payload = Buffer.concat([toPlanes(gaps.buffer, 4), toPlanes(values.buffer, 8)]);
  return { count: indices.length, bytes: brotliCompressSync(payload) };
}

/** float64[2^18]. @throws what `invalid` makes. */
export function decodeSparse({ count, bytes }: SparseArray, invalid: Invalid): Float64Array {
  if (count > WEIGHT_COUNT) throw invalid(`claims ${count} weights of ${WEIGHT_COUNT}`);
  const payload = decompress(bytes, count * ENTRY_BYTES, invalid);
  const gaps = new Uint32Array(fromPlanes(payload.subarray(0, count * 4), 4));
  const values = new Float64Array(fromPlanes(payload.subarray(count * 4), 8));
  const array = new Float64Array(WEIGHT_COUNT);
  let index = 0;
  gaps.forEach((gap, i) => {
    index += gap;
    if (index >= WEIGHT_COUNT) throw invalid(`has a weight at ${index}, beyond ${WEIGHT_COUNT}`);
    array[index] = values[i] ?? 0;
  });
  return array;
}

/** The file appears under its name whole or not at all, and is on disk when this resolves. */
export async function writeWhole(path: string, bytes: Buffer): Promise<void> {
  const temporary = `${path}.${randomUUID()}.tmp`;
  try {
    await writeFile(temporary, bytes, { flush: true });
    await rename(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}

/** Never inflates beyond what the header promised. */
function decompress(body: Buffer, expected: number, invalid: Invalid): Buffer {
  let payload: Buffer;
  try {
    payload = brotliDecompressSync(body, { maxOutputLength: expected + 1 });
  } catch (cause) {
    throw invalid("cannot be decompressed; it is cut or damaged", cause);
  }
  if (payload.length === expected) return payload;
  throw invalid(`decompresses to ${payload.length} bytes instead of ${expected}`);
}

/** Byte k of every element, then byte k + 1 of every element: like bytes lie together and compress. */
function toPlanes(buffer: ArrayBufferLike, width: number): Buffer {
  const bytes = new Uint8Array(buffer);
  const count = bytes.length / width;
  const planes = Buffer.alloc(bytes.length);
  bytes.forEach((byte, i) => {
    planes[(i % width) * count + Math.floor(i / width)] = byte;
  });
  return planes;
}

function fromPlanes(planes: Uint8Array, width: number): ArrayBuffer {
  const count = planes.length / width;
  const bytes = new Uint8Array(planes.length);
  planes.forEach((byte, i) => {
    bytes[(i % count) * width + Math.floor(i / count)] = byte;
  });
  return bytes.buffer;
}
