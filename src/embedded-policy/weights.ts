/** Immutable snapshots of the weights, in memory that threads share. */
import { createHash } from "node:crypto";
import { WEIGHT_COUNT } from "./features.js";
import type { PolicySnapshot } from "./types.js";

/**
 * A snapshot of a copy of the weights, in a SharedArrayBuffer of its own.
 *
 * @throws RangeError when the length is not 2^18 or a weight is not finite.
 */
export function snapshotOf(weights: Float64Array, version: number): PolicySnapshot {
  if (weights.length !== WEIGHT_COUNT)
    throw new RangeError(`weights has length ${weights.length}; it must be ${WEIGHT_COUNT}`);
  const shared = new Float64Array(new SharedArrayBuffer(WEIGHT_COUNT * 8));
  for (let i = 0; i < WEIGHT_COUNT; i++) {
    const weight = weights[i] ?? 0;
    if (!Number.isFinite(weight))
      throw new RangeError(`weight ${i} is ${weight}; it must be finite`);
    shared[i] = weight + 0; // −0 becomes 0, so that equal weights have equal digests
  }
  return { version, digest: weightsDigest(shared), weights: shared };
}

/** The policy before training: every weight 0, so that only the grammar's priors speak. Version 0. */
export function untrainedSnapshot(): PolicySnapshot {
  return snapshotOf(new Float64Array(WEIGHT_COUNT), 0);
}

/** sha256, hex, of the little-endian float64 bytes. */
function weightsDigest(weights: Float64Array): string {
  // Copied: a hash does not read shared memory.
  return createHash("sha256")
    .update(new Uint8Array(Float64Array.from(weights).buffer))
    .digest("hex");
}
