/**
 * A snapshot in a file: the non-zero weights, compressed.
 *
 * Layout, little-endian: `CORRALPW`, uint32 format, uint32 count, 32 bytes sha256 of the dense weights, then the weights as
 * `sparse-array.ts` writes them.
 *
 * K1. What loads has the digest that was saved; anything else is refused with what is wrong.
 * K2. A file appears under its name whole or not at all.
 */
import { readFile } from "node:fs/promises";
import { PolicyError } from "./errors.js";
import { decodeSparse, encodeSparse, type Invalid, writeWhole } from "./sparse-array.js";
import type { PolicySnapshot } from "./types.js";
import { snapshotOf } from "./weights.js";

const MAGIC = "CORRALPW";
const FORMAT = 1;
const HEADER_BYTES = 48;

/** Writes the weights. The version is the training loop's and is not stored. Overwrites. */
export async function saveCheckpoint(path: string, snapshot: PolicySnapshot): Promise<void> {
  const { count, bytes } = encodeSparse(snapshot.weights);
  const header = Buffer.alloc(HEADER_BYTES);
  header.write(MAGIC, "latin1");
  header.writeUInt32LE(FORMAT, 8);
  header.writeUInt32LE(count, 12);
  header.write(snapshot.digest, 16, "hex");
  await writeWhole(path, Buffer.concat([header, bytes])); // K2
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
  const weights = decodeSparse({ count, bytes: bytes.subarray(HEADER_BYTES) }, invalid);
  const snapshot = snapshotFrom(weights, version, invalid);
  const digest = bytes.toString("hex", 16, HEADER_BYTES);
  if (snapshot.digest !== digest)
    throw invalid(`holds weights with digest ${snapshot.digest}, but names ${digest}`);
  return snapshot;
}

/** @throws what `invalid` makes for a weight that is not finite. */
export function snapshotFrom(
  weights: Float64Array,
  version: number,
  invalid: Invalid,
): PolicySnapshot {
  try {
    return snapshotOf(weights, version);
  } catch (cause) {
    throw invalid("holds a weight that is not finite", cause);
  }
}
