/**
 * The gradient of one policy-gradient step, summed over recorded completions. The ids are replayed; nothing is sampled and
 * no text is looked at.
 *
 * E1. The gradient of a completion's raw log probability with respect to a leaf's score is posterior − prior, exactly.
 * E2. The importance ratio is that of a node's tokens together: the choice is the action, its spelling is not. Where the
 *     ratio is clipped the choice has no gradient, as in PPO.
 * E3. Under the weights that sampled it a completion's ratio is exactly 1 and its KL error exactly 0.
 */
import { type ChoiceNode, leafProbabilities } from "./choice-nodes.js";
import type { EmbeddedPolicy } from "./policy.js";
import { processedProbabilities } from "./sampler.js";
import type { LeafEvidence } from "./walk.js";

/** One model call to learn from. */
export interface PolicySample {
  readonly promptIds: Int32Array;
  readonly tokenIds: Int32Array;
  /** Positive makes the completion likelier. Finite. */
  readonly advantage: number;
  /**
   * Captured log probabilities at temperature 1 without filters, natural log, one for each id: the importance ratio is
   * taken against them. Without them the sample counts as drawn from the given snapshot.
   */
  readonly logProbs?: Float64Array;
}

/** What a trainable completion was sampled with. The engine normalises also then, which may move the last bit. */
const NEUTRAL = { temperature: 1, topP: 1, topK: 0, seed: 0, maxTokens: 1 };

export interface GradientSettings {
  /** Nats. */
  readonly entropyBonus: number;
  /** A ratio outside [1 − clip, 1 + clip] that the advantage would drive further out has no gradient. */
  readonly clip: number;
  /** Weight of KL(policy ‖ reference) of each visited node, and the reference's weights. */
  readonly kl: { readonly coefficient: number; readonly reference: Float64Array } | null;
}

/** What the replay saw. */
export interface ReplayFigures {
  readonly tokens: number;
  /** Largest |replayed − captured| log probability, nats; 0 when nothing was captured. */
  readonly maxLogProbDifference: number;
  /** Sum over tokens of exp(d) − 1 − d, d = replayed − captured: an estimate of KL(captured ‖ replayed). */
  readonly klErrorSum: number;
  /** Tokens with a captured log probability. */
  readonly compared: number;
  readonly nodes: number;
  readonly clippedNodes: number;
}

export class GradientSum {
  /** Weight index → slope. */
  readonly slopes = new Map<number, number>();
  #tokens = 0;
  #maxDifference = 0;
  #klError = 0;
  #compared = 0;
  #nodes = 0;
  #clipped = 0;

  /** @throws PolicyError `OFF_GRAMMAR`; RangeError when the advantage or a captured log probability is not finite. */
  add(
    policy: EmbeddedPolicy,
    weights: Float64Array,
    sample: PolicySample,
    settings: GradientSettings,
  ): void {
    const { promptIds, tokenIds, advantage, logProbs } = sample;
    if (!Number.isFinite(advantage))
      throw new RangeError(`advantage is ${advantage}; it must be finite`);
    if (logProbs !== undefined && logProbs.length !== tokenIds.length)
      throw new RangeError(`${logProbs.length} log probabilities for ${tokenIds.length} tokens`);
    let logRatio = 0;
    policy.replay(
      weights,
      promptIds,
      tokenIds,
      (at, index, distribution) => {
        this.#tokens++;
        if (logProbs === undefined) return;
        const captured = logProbs[at] ?? Number.NaN;
        if (!Number.isFinite(captured))
          throw new RangeError(`captured log probability ${at} is ${captured}; it must be finite`);
        const replayed = processedProbabilities(distribution, NEUTRAL)[index] ?? 0;
        const difference = Math.log(replayed) - captured;
        logRatio += difference;
        this.#compared++;
        this.#maxDifference = Math.max(this.#maxDifference, Math.abs(difference));
        this.#klError += Math.expm1(difference) - difference;
      },
      (evidence) => {
        this.#addNode(evidence, advantage * this.#factor(logRatio, advantage, settings), settings);
        logRatio = 0;
      },
    );
  }

  get figures(): ReplayFigures {
    return {
      tokens: this.#tokens,
      maxLogProbDifference: this.#maxDifference,
      klErrorSum: this.#klError,
      compared: this.#compared,
      nodes: this.#nodes,
      clippedNodes: this.#clipped,
    };
  }

  /** E2. */
  #factor(logRatio: number, advantage: number, { clip }: GradientSettings): number {
    this.#nodes++;
    const ratio = Math.exp(logRatio);
    const outside = advantage > 0 ? ratio > 1 + clip : advantage < 0 && ratio < 1 - clip;
    if (outside) this.#clipped++;
    return outside ? 0 : ratio;
  }

  #addNode(evidence: LeafEvidence, scale: number, settings: GradientSettings): void {
    const { node, prior, posterior } = evidence;
    const pull = pullOf(node, prior, settings);
    node.leaves.forEach(({ features }, i) => {
      const slope = scale * ((posterior[i] ?? 0) - (prior[i] ?? 0)) + (pull?.[i] ?? 0); // E1
      if (slope === 0) return;
      features.indices.forEach((index, k) => {
        this.slopes.set(index, (this.slopes.get(index) ?? 0) + slope * (features.values[k] ?? 0));
      });
    });
  }
}

/** Slopes of entropyBonus · H(p) − coefficient · KL(p ‖ reference) by leaf score; null when neither counts. */
function pullOf(
  node: ChoiceNode,
  prior: Float64Array,
  { entropyBonus, kl }: GradientSettings,
): Float64Array | null {
  if (entropyBonus === 0 && kl === null) return null;
  const entropy = prior.reduce((sum, p) => sum - (p > 0 ? p * Math.log(p) : 0), 0);
  const pull = prior.map((p) => (p > 0 ? entropyBonus * p * (-Math.log(p) - entropy) : 0));
  if (kl === null) return pull;
  const reference = leafProbabilities(node, kl.reference);
  const logRatios = prior.map((p, i) => (p > 0 ? Math.log(p / (reference[i] ?? 0)) : 0));
  const divergence = prior.reduce((sum, p, i) => sum + p * (logRatios[i] ?? 0), 0);
  return pull.map(
    (slope, i) => slope - kl.coefficient * (prior[i] ?? 0) * ((logRatios[i] ?? 0) - divergence),
  );
}
