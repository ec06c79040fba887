/** The grammar's shape: a completion is a path of choice nodes, and at each node one leaf is picked and spelled. */
import type { FeatureVector } from "./features.js";

/** One string a node can produce. */
export interface Leaf {
  /** Printable ASCII, `\n` and marks; see `bpe.ts`. */
  readonly text: string;
  readonly features: FeatureVector;
  /** Added to the learned score, nats. */
  readonly prior: number;
  /** The node after this leaf; undefined when the leaf ends the completion. */
  readonly next: (() => ChoiceNode) | undefined;
}

/**
 * Leaves to choose from; at least one.
 *
 * Texts are prefix-free, except that equal texts may occur: they differ in features only and lead to the same node.
 */
export interface ChoiceNode {
  readonly leaves: readonly Leaf[];
}

/** A string value for an argument or an answer, before it becomes a leaf. */
export interface Candidate {
  readonly text: string;
  /** Where it comes from: `word`, `line`, `phrase`, … */
  readonly kind: string;
  readonly features: FeatureVector;
}

/** Log prior that gives every kind the same mass, shared evenly within it. */
export function kindPriors(candidates: readonly Candidate[]): number[] {
  const counts = new Map<string, number>();
  for (const { kind } of candidates) counts.set(kind, (counts.get(kind) ?? 0) + 1);
  return candidates.map(({ kind }) => -Math.log(counts.get(kind) ?? 1));
}

/** Softmax of prior + weights · features. float64[leaves], sums to 1. */
export function leafProbabilities(node: ChoiceNode, weights: Float64Array): Float64Array {
  const scores = Float64Array.from(node.leaves, (leaf) => leaf.prior + leaf.features.dot(weights));
  const highest = scores.reduce((a, b) => Math.max(a, b), Number.NEGATIVE_INFINITY);
  const masses = scores.map((score) => Math.exp(score - highest));
  const total = masses.reduce((a, b) => a + b, 0);
  return masses.map((mass) => mass / total);
}
