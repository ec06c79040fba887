/** Sums over delivered rollouts, for a step and for a whole run. What is not known is absent, never 0. */
import { isMapping } from "./config/merge.js";
import type { Rollout } from "./rollout-group.js";

/** The first five are what to look at on a first run; see docs/first-run.md. */
export interface RolloutFigures {
  /** Mean model calls of a rollout. */
  readonly n_calls?: number;
  /** Mean chains of a rollout; 1 is healthy for a harness without sub-agents. */
  readonly chains?: number;
  /** Delivered of captured generated tokens. */
  readonly delivered_fraction?: number;
  /** Rows that a trainer must skip. */
  readonly masked: number;
  /** Mean reward of the trainable rollouts. */
  readonly reward_mean?: number;
  /** Mean reward of the masked rollouts that have one. */
  readonly reward_mean_masked?: number;
  readonly rollouts: number;
  readonly trainable: number;
  readonly stale: number;
  readonly failed: number;
  readonly generated_tokens: number;
}

/** What a run is doing. */
export interface RunStats extends RolloutFigures {
  readonly running: number;
  /** Rollouts of an earlier process that wait to be handed out. */
  readonly pending: number;
  readonly retried: number;
  readonly cancelled: number;
  readonly policy_version: number;
  /** Steps that were reported. */
  readonly steps: number;
  readonly wall_s: number;
  /** Generated tokens that were captured, per second of the process. */
  readonly tokens_per_s: number;
  readonly rollouts_per_s: number;
  /** Mask reason or failure → rollouts. */
  readonly reasons: Readonly<Record<string, number>>;
}

export class RolloutCounts {
  readonly reasons: Record<string, number> = {};
  #rollouts = 0;
  #trainable = 0;
  #masked = 0;
  #stale = 0;
  #failed = 0;
  #measured = 0;
  #calls = 0;
  #chains = 0;
  #captured = 0;
  #delivered = 0;
  #reward = 0;
  readonly #maskedReward = { sum: 0, count: 0 };

  add({ row, reward, trainable, reasons }: Rollout): void {
    this.#rollouts++;
    const masked = row.mask_sample === true;
    if (masked) this.#masked++;
    if (row.error !== undefined) this.#failed++;
    if (reasons.includes("STALE_POLICY")) this.#stale++;
    for (const reason of new Set(reasons)) this.reasons[reason] = (this.reasons[reason] ?? 0) + 1;
    if (trainable) {
      this.#trainable++;
      this.#reward += reward ?? 0;
    }
    if (masked && reward !== null) {
      this.#maskedReward.sum += reward;
      this.#maskedReward.count++;
    }
    const metrics = row._ng_token_capture;
    if (isMapping(metrics)) this.#addMetrics(metrics);
  }

  #addMetrics(metrics: Readonly<Record<string, unknown>>): void {
    const number = (key: string) => {
      const value = metrics[key];
      return typeof value === "number" ? value : 0;
    };
    this.#measured++;
    this.#calls += number("n_calls");
    this.#chains += number("chains");
    this.#captured += number("generated_tokens_captured");
    this.#delivered += number("generated_tokens_delivered");
  }

  figures(): RolloutFigures {
    const measured = this.#measured > 0;
    const { sum, count } = this.#maskedReward;
    return {
      ...(measured && { n_calls: this.#calls / this.#measured }),
      ...(measured && { chains: this.#chains / this.#measured }),
      ...(this.#captured > 0 && { delivered_fraction: this.#delivered / this.#captured }),
      masked: this.#masked,
      ...(this.#trainable > 0 && { reward_mean: this.#reward / this.#trainable }),
      ...(count > 0 && { reward_mean_masked: sum / count }),
      rollouts: this.#rollouts,
      trainable: this.#trainable,
      stale: this.#stale,
      failed: this.#failed,
      generated_tokens: this.#captured,
    };
  }
}
