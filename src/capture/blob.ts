/** Arrays of numbers as BLOBs: little-endian on every platform Node runs on here; a store file never leaves its node. */

/** Bytes per stored log probability: 4 only when no value loses anything. */
export type LogProbWidth = 4 | 8;

/** The array's own bytes, without a copy: for what only reads them, in this thread. */
export function bytesOf(values: Int32Array | Float64Array): Uint8Array {
  return new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
}

/**
 * The array's own bytes, int32[n]. A view, unless the array is part of a larger buffer: a view of that would be
 * cloned with the whole buffer when it crosses a thread.
 */
export function int32Bytes(values: Int32Array): Uint8Array {
  const bytes = bytesOf(values);
  return bytes.byteLength === values.buffer.byteLength ? bytes : bytes.slice();
}

/** Writes a BLOB, int32[bytes / 4] at any address, into `target` from `at` on. */
export function copyInt32(bytes: Uint8Array, target: Int32Array, at: number): void {
  bytesOf(target).set(bytes, 4 * at);
}

/** float64[n] as float32 when every value survives the trip bit for bit, else as float64. */
export function encodeLogProbs(values: Float64Array): { width: LogProbWidth; bytes: Uint8Array } {
  const narrow = new Float32Array(values);
  const lossless = values.every((value, index) => Object.is(narrow[index], value));
  return lossless
    ? { width: 4, bytes: new Uint8Array(narrow.buffer) }
    : { width: 8, bytes: float64Bytes(values) };
}

/** float64[bytes / width]. */
export function decodeLogProbs(bytes: Uint8Array, width: LogProbWidth): Float64Array {
  const { buffer } = new Uint8Array(bytes);
  return width === 4 ? new Float64Array(new Float32Array(buffer)) : new Float64Array(buffer);
}

/** The array's own bytes, float64[n]; a view under the same rule as `int32Bytes`. */
function float64Bytes(values: Float64Array): Uint8Array {
  const bytes = bytesOf(values);
  return bytes.byteLength === values.buffer.byteLength ? bytes : bytes.slice();
}
