/**
 * A snapshot in a file: the non-zero weights, compressed.
 *
 * Layout, little-endian: `CORRALPW`, uint32 format, uint32 count, 32 bytes sha256 of the dense weights, then Brotli of
 * uint32[count] gaps between indices and float64[count] weights, both in byte planes (all first bytes, all second, …).
 *
 * K1. What loads has the digest that was saved; anything else is refused with what is wrong.
 * K2. A file appears under its name whole or not at all.
 */
import { randomUUID } from "node:crypto";
import { readFile, rename, rm, writeFile } from "node:fs/promises";
import { brotliCompressSync, brotliDecompressSync } from "node:zlib";
import { PolicyError } from "./errors.js";
import { WEIGHT_COUNT } from "./features.js";
import type { PolicySnapshot } from "./types.js";
import { snapshotOf } from "./weights.js";

const MAGIC = "CORRALPW";
const FORMAT = 1;
const HEADER_BYTES = 48;
const ENTRY_BYTES = 12;

/** Writes the weights. The version is the training loop's and is not stored. Overwrites. */
export async function saveCheckpoint(path: string, snapshot: PolicySnapshot): Promise<void> {
  const indices: number[] = [];
  snapshot.weights.forEach((weight, index) => {
    if (weight !== 0) indices.push(index);
  });
  const gaps = Uint32Array.from(indices, (index, i) => index - (indices[i - 1] ?? 0));
  const values = Float64Array.from(indices, (index) => snapshot.weights[index] ?? 0);
  const payload = Buffer.concat([toPlanes(gaps.buffer, 4), toPlanes(values.buffer, 8)]);
  const header = Buffer.alloc(HEADER_BYTES);
  header.write(MAGIC, "latin1");
  header.writeUInt32LE(FORMAT, 8);
  header.writeUInt32LE(indices.length, 12);
  header.write(snapshot.digest, 16, "hex");
  const temporary = `${path}.${randomUUID()}.tmp`;
  try {
    await writeFile(temporary, Buffer.concat([header, brotliCompressSync(payload)]));
    await rename(temporary, path); // K2
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}

/**
 * Reads a checkpoint into a snapshot with the given version.
 *
 * @throws PolicyError `CHECKPOINT_INVALID` when the file cannot be read or is damaged, `CHECKPOINT_TOO_NEW` when a newer
 * Corral wrote it.
 */
export async function loadCheckpoint(path: string, version = 0): Promise<PolicySnapshot> {
  const bytes = await readFile(path).catch((cause: unknown) => {
    throw new PolicyError("CHECKPOINT_INVALID", `cannot read the checkpoint ${path}`, { cause });
  });
  const invalid = (what: string, cause?: unknown) =>
    new PolicyError("CHECKPOINT_INVALID", `the checkpoint ${path} ${what}`, { cause });
  if (bytes.length < HEADER_BYTES || bytes.toString("latin1", 0, 8) !== MAGIC)
    throw invalid(`does not begin with ${MAGIC} and a header of ${HEADER_BYTES} bytes`);
  const format = bytes.readUInt32LE(8);
  if (format > FORMAT) {
    const message = `the checkpoint ${path} has format ${format}; this version reads up to ${FORMAT}`;
    throw new PolicyError("CHECKPOINT_TOO_NEW", message);
  }
  const count = bytes.readUInt32LE(12);
  if (count > WEIGHT_COUNT) throw invalid(`claims ${count} weights of ${WEIGHT_COUNT}`);
  const payload = decompress(bytes.subarray(HEADER_BYTES), count * ENTRY_BYTES, invalid);
  const snapshot = decodeWeights(payload, count, version, invalid);
  const digest = bytes.toString("hex", 16, HEADER_BYTES);
  if (snapshot.digest !== digest)
    throw invalid(`holds weights with digest ${snapshot.digest}, but names ${digest}`);
  return snapshot;
}

type Invalid = (what: string, cause?: unknown) => PolicyError;

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

function decodeWeights(
  payload: Buffer,
  count: number,
  version: number,
  invalid: Invalid,
): PolicySnapshot {
  const gaps = new Uint32Array(fromPlanes(payload.subarray(0, count * 4), 4));
  const values = new Float64Array(fromPlanes(payload.subarray(count * 4), 8));
  const weights = new Float64Array(WEIGHT_COUNT);
  let index = 0;
  gaps.forEach((gap, i) => {
    index += gap;
    if (index >= WEIGHT_COUNT) throw invalid(`has a weight at ${index}, beyond ${WEIGHT_COUNT}`);
    weights[index] = values[i] ?? 0;
  });
  try {
    return snapshotOf(weights, version);
  } catch (cause) {
    throw invalid("holds a weight that is not finite", cause);
  }
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
