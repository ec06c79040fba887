/**
 * One policy-gradient step on recorded ids: clipped importance ratios, entropy bonus, optional KL, Adagrad.
 *
 * U1. The gradient is that of the recorded ids under the given weights, exactly (see `gradient.ts`).
 * U2. Snapshots and optimiser states are never written to; a step returns new ones.
 */

import { WEIGHT_COUNT } from "./features.js";
import { GradientSum, type PolicySample, type ReplayFigures } from "./gradient.js";
import type { EmbeddedPolicy } from "./policy.js";
import type { PolicySnapshot } from "./types.js";
import { snapshotOf } from "./weights.js";

/** Adagrad's sum of squared gradients. float64[2^18]. */
export interface OptimizerState {
  readonly squares: Float64Array;
}

export interface UpdateOptions {
  /** @default 0.5. */
  readonly learningRate?: number;
  /** Weight of the entropy of each visited node's leaves, nats. @default 0.02. */
  readonly entropyBonus?: number;
  /** Importance ratios are clipped to [1 − clip, 1 + clip]. @default 0.2. */
  readonly clip?: number;
  /** Weight of the KL divergence from `reference` of each visited node, nats. @default 0. */
  readonly klCoefficient?: number;
  /** What `klCoefficient` pulls towards. */
  readonly reference?: PolicySnapshot;
}

export interface PolicyUpdate {
  /** Version is the old one plus 1. */
  readonly snapshot: PolicySnapshot;
  readonly optimizer: OptimizerState;
  readonly figures: ReplayFigures;
}

/** Adagrad starts from this, so that a first gradient near 0 is no full step. */
const INITIAL_SQUARE = 0.1;

/** The state before the first step. */
export function initialOptimizer(): OptimizerState {
  return { squares: new Float64Array(WEIGHT_COUNT) };
}

/**
 * One ascent step on Σ advantage · ratio + entropy bonus − KL; the gradient is divided by √(samples with a signal).
 *
 * @throws PolicyError `OFF_GRAMMAR` when a sample's ids are no path of its prompt's grammar.
 * @throws RangeError when an advantage, a log probability or an option is not finite, or a KL has no reference.
 */
export function policyGradientUpdate(
  policy: EmbeddedPolicy,
  snapshot: PolicySnapshot,
  optimizer: OptimizerState,
  samples: readonly PolicySample[],
  options: UpdateOptions = {},
): PolicyUpdate {
  const { learningRate = 0.5, entropyBonus = 0.02, clip = 0.2, klCoefficient = 0 } = options;
  for (const [name, value] of Object.entries({ learningRate, entropyBonus, clip, klCoefficient }))
    if (!Number.isFinite(value)) throw new RangeError(`${name} is ${value}; it must be finite`);
  const { reference } = options;
  if (klCoefficient !== 0 && reference === undefined)
    throw new RangeError(`klCoefficient is ${klCoefficient} without a reference`);
  const kl =
    klCoefficient === 0 || reference === undefined
      ? null
      : { coefficient: klCoefficient, reference: reference.weights };
  const gradient = new GradientSum();
  for (const sample of samples)
    if (sample.advantage !== 0 || entropyBonus !== 0 || kl !== null || sample.logProbs)
      gradient.add(policy, snapshot.weights, sample, { entropyBonus, clip, kl });
  const scale = 1 / Math.sqrt(Math.max(1, samples.filter((s) => s.advantage !== 0).length));
  const weights = Float64Array.from(snapshot.weights);
  const squares = Float64Array.from(optimizer.squares);
  for (const [index, sum] of gradient.slopes) {
    const step = sum * scale;
    const square = (squares[index] ?? 0) + step * step;
    squares[index] = square;
    weights[index] =
      (weights[index] ?? 0) + (learningRate * step) / Math.sqrt(square + INITIAL_SQUARE);
  }
  const { figures } = gradient;
  return { snapshot: snapshotOf(weights, snapshot.version + 1), optimizer: { squares }, figures };
}
