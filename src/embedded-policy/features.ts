/** Sparse features in one hashed space: no dictionary to store, and words never seen in training still have a place. */

/** Number of weights; a power of two. */
export const WEIGHT_COUNT = 1 << 18;

/** FNV-1a over the parts, a separator after each, then Murmur's finish. Collisions only share a weight. */
function featureIndex(parts: readonly (string | number)[]): number {
  let hash = 2166136261;
  for (const part of parts) {
    const text = String(part);
    for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 16777619);
    hash = Math.imul(hash ^ 31, 16777619);
  }
  hash = Math.imul(hash ^ (hash >>> 13), 0x5bd1e995);
  return (hash ^ (hash >>> 15)) & (WEIGHT_COUNT - 1);
}

/** A sparse vector over the weights. An index may occur twice; its values then add up. */
export class FeatureVector {
  readonly indices: number[] = [];
  readonly values: number[] = [];

  /** Adds `value` at the feature that `parts` name. */
  add(value: number, ...parts: readonly (string | number)[]): void {
    this.indices.push(featureIndex(parts));
    this.values.push(value);
  }

  /** Inner product with the weights. */
  dot(weights: Float64Array): number {
    let sum = 0;
    for (let i = 0; i < this.indices.length; i++)
      sum += (weights[this.indices[i] ?? 0] ?? 0) * (this.values[i] ?? 0);
    return sum;
  }
}
