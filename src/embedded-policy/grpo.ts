/**
 * Group-relative policy optimisation over rollouts: what a rollout earned more than its group becomes the advantage of
 * every call of it.
 *
 * O1. A group whose rewards are equal has no advantages; so has a group of one.
 */
import type { PolicySample } from "./gradient.js";

/** One model call as it was captured. */
export interface RolloutCall extends Omit<PolicySample, "advantage"> {}

export interface ScoredRollout {
  /** Finite. */
  readonly reward: number;
  readonly calls: readonly RolloutCall[];
}

/**
 * Added to a group's standard deviation. Without it a group whose rewards differ by a trifle would get full advantages.
 */
const DEVIATION_FLOOR = 0.1;

/** (reward − mean) / (standard deviation + floor). @throws RangeError when a reward is not finite. */
export function groupAdvantages(rewards: readonly number[], floor = DEVIATION_FLOOR): number[] {
  const bad = rewards.find((reward) => !Number.isFinite(reward));
  if (bad !== undefined) throw new RangeError(`reward is ${bad}; it must be finite`);
  const count = Math.max(1, rewards.length);
  const mean = rewards.reduce((a, b) => a + b, 0) / count;
  const variance = rewards.reduce((sum, reward) => sum + (reward - mean) ** 2, 0) / count;
  // O1, also where the mean rounds.
  if (rewards.every((reward) => reward === rewards[0])) return rewards.map(() => 0);
  return rewards.map((reward) => (reward - mean) / (Math.sqrt(variance) + floor));
}

/** The samples of one group. */
export function groupSamples(group: readonly ScoredRollout[], floor?: number): PolicySample[] {
  const advantages = groupAdvantages(
    group.map(({ reward }) => reward),
    floor,
  );
  return group.flatMap(({ calls }, i) =>
    calls.map((call) => ({ ...call, advantage: advantages[i] ?? 0 })),
  );
}

/** A constant, or a straight line from `from` to `to` over `steps` steps, constant after it. */
export type LearningRate =
  | number
  | { readonly from: number; readonly to: number; readonly steps: number };

export function learningRateAt(rate: LearningRate, step: number): number {
  if (typeof rate === "number") return rate;
  const done = Math.min(1, step / Math.max(1, rate.steps));
  return rate.from + (rate.to - rate.from) * done;
}
