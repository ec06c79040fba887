/**
 * One policy-gradient step on recorded ids: REINFORCE on leaf choices, Adagrad, entropy bonus.
 *
 * U1. The gradient of a completion's raw log probability with respect to a leaf's score is posterior − prior, exactly.
 * U2. Snapshots and optimiser states are never written to; a step returns new ones.
 */

import { WEIGHT_COUNT } from "./features.js";
import type { EmbeddedPolicy } from "./policy.js";
import type { PolicySnapshot } from "./types.js";
import type { LeafEvidence } from "./walk.js";
import { snapshotOf } from "./weights.js";

/** One model call to learn from. */
export interface PolicySample {
  readonly promptIds: Int32Array;
  readonly tokenIds: Int32Array;
  /** Positive makes the completion likelier. Finite. */
  readonly advantage: number;
}

/** Adagrad's sum of squared gradients. float64[2^18]. */
export interface OptimizerState {
  readonly squares: Float64Array;
}

export interface UpdateOptions {
  /** @default 0.5. */
  readonly learningRate?: number;
  /** Weight of the entropy of each visited node's leaves, nats. @default 0.02. */
  readonly entropyBonus?: number;
}

export interface PolicyUpdate {
  /** Version is the old one plus 1. */
  readonly snapshot: PolicySnapshot;
  readonly optimizer: OptimizerState;
}

/** Adagrad starts from this, so that a first gradient near 0 is no full step. */
const INITIAL_SQUARE = 0.1;

/** The state before the first step. */
export function initialOptimizer(): OptimizerState {
  return { squares: new Float64Array(WEIGHT_COUNT) };
}

/**
 * One ascent step on Σ advantage · log p(completion) + entropy bonus; the gradient is divided by √(samples with a signal).
 *
 * On-policy is the caller's business: samples of older snapshots are taken as if this one had drawn them.
 *
 * @throws PolicyError `OFF_GRAMMAR` when a sample's ids are no path of its prompt's grammar.
 * @throws RangeError when an advantage or an option is not finite.
 */
export function policyGradientUpdate(
  policy: EmbeddedPolicy,
  snapshot: PolicySnapshot,
  optimizer: OptimizerState,
  samples: readonly PolicySample[],
  { learningRate = 0.5, entropyBonus = 0.02 }: UpdateOptions = {},
): PolicyUpdate {
  for (const [name, value] of Object.entries({ learningRate, entropyBonus }))
    if (!Number.isFinite(value)) throw new RangeError(`${name} is ${value}; it must be finite`);
  const gradient = new Map<number, number>();
  for (const sample of samples) addGradient(gradient, policy, snapshot, sample, entropyBonus);
  const scale = 1 / Math.sqrt(Math.max(1, samples.filter((s) => s.advantage !== 0).length));
  const weights = Float64Array.from(snapshot.weights);
  const squares = Float64Array.from(optimizer.squares);
  for (const [index, sum] of gradient) {
    const step = sum * scale;
    const square = (squares[index] ?? 0) + step * step;
    squares[index] = square;
    weights[index] =
      (weights[index] ?? 0) + (learningRate * step) / Math.sqrt(square + INITIAL_SQUARE);
  }
  return { snapshot: snapshotOf(weights, snapshot.version + 1), optimizer: { squares } };
}

/** Gradient of Σ log p over the tokens, by weight index (U1). Used by the numeric check. */
export function logProbGradient(
  policy: EmbeddedPolicy,
  snapshot: PolicySnapshot,
  promptIds: Int32Array,
  tokenIds: Int32Array,
): Map<number, number> {
  const gradient = new Map<number, number>();
  addGradient(gradient, policy, snapshot, { promptIds, tokenIds, advantage: 1 }, 0);
  return gradient;
}

function addGradient(
  gradient: Map<number, number>,
  policy: EmbeddedPolicy,
  { weights }: PolicySnapshot,
  { promptIds, tokenIds, advantage }: PolicySample,
  entropyBonus: number,
): void {
  if (!Number.isFinite(advantage))
    throw new RangeError(`advantage is ${advantage}; it must be finite`);
  if (advantage === 0 && entropyBonus === 0) return;
  const leave = ({ node, prior, posterior }: LeafEvidence) => {
    const entropy = prior.reduce((sum, p) => sum - (p > 0 ? p * Math.log(p) : 0), 0);
    node.leaves.forEach(({ features }, i) => {
      const p = prior[i] ?? 0;
      const surprise = p > 0 ? -Math.log(p) - entropy : 0;
      const slope = advantage * ((posterior[i] ?? 0) - p) + entropyBonus * p * surprise;
      if (slope === 0) return;
      features.indices.forEach((index, k) => {
        gradient.set(index, (gradient.get(index) ?? 0) + slope * (features.values[k] ?? 0));
      });
    });
  };
  policy.replay(weights, promptIds, tokenIds, () => undefined, leave);
}
