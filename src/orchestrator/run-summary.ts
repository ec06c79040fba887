/** Counts the rows of a results file: one truth for a run that was started several times. */

import { isMapping, type Mapping } from "./config/merge.js";
import type { RunStop } from "./run-stop.js";

export interface RunSummary {
  readonly runId: string;
  /** Rows in `--out`. */
  readonly rollouts: number;
  /** Rollouts without a row. */
  readonly remaining: number;
  /** Rows without an error. */
  readonly completed: number;
  readonly masked: number;
  /** Mask reason → rows that have it. */
  readonly maskReasons: Readonly<Record<string, number>>;
  /** Null when no such row has a reward. */
  readonly meanReward: { readonly unmasked: number | null; readonly masked: number | null };
  /** Means over the rows with metrics. */
  readonly meanCalls: number | null;
  readonly meanChains: number | null;
  /** Delivered / captured generated tokens over all rows. */
  readonly deliveredFraction: number | null;
  readonly tokensCaptured: number;
  /** Rows with metrics. */
  readonly captured: number;
  /** Warning of a rollout → rows that have it. */
  readonly warnings: Readonly<Record<string, number>>;
  /** What is wrong with the run as a whole, for people. */
  readonly health: readonly string[];
  /** Worker → calls it served, this process only. */
  readonly callsPerWorker: Readonly<Record<string, number>>;
  /** This process only, ms. */
  readonly wallMs: number;
  /** Rows of this process per minute. */
  readonly rolloutsPerMinute: number;
  /** Rows of selected agents without `_ng_token_capture`. */
  readonly notRebuilt: number;
  /** Error code → rows. */
  readonly failures: Readonly<Record<string, number>>;
  readonly stopped: RunStop | null;
  /** Nothing is captured: there are no token ids to train on. */
  readonly evaluationOnly: boolean;
}

type Counted = Omit<
  RunSummary,
  | "runId"
  | "remaining"
  | "callsPerWorker"
  | "wallMs"
  | "rolloutsPerMinute"
  | "stopped"
  | "health"
  | "evaluationOnly"
>;

/** Mean of what was added; null of nothing. */
class Mean {
  #sum = 0;
  #count = 0;
  add(value: unknown): void {
    if (typeof value !== "number" || !Number.isFinite(value)) return;
    this.#sum += value;
    this.#count++;
  }
  get value(): number | null {
    return this.#count === 0 ? null : this.#sum / this.#count;
  }
}

export class RowTally {
  readonly #isSelected: (row: unknown) => boolean;
  readonly #maskReasons: Record<string, number> = {};
  readonly #failures: Record<string, number> = {};
  readonly #reward = { unmasked: new Mean(), masked: new Mean() };
  readonly #calls = new Mean();
  readonly #chains = new Mean();
  #rows = 0;
  #masked = 0;
  #notRebuilt = 0;
  #withMetrics = 0;
  #captured = 0;
  #delivered = 0;
  readonly #warnings: Record<string, number> = {};

  /** `isSelected` tells whether the row's agent was to be captured and rebuilt. */
  constructor(isSelected: (row: unknown) => boolean) {
    this.#isSelected = isSelected;
  }

  add(row: unknown): void {
    if (!isMapping(row)) return;
    this.#rows++;
    const masked = row["mask_sample"] === true;
    if (masked) this.#masked++;
    this.#reward[masked ? "masked" : "unmasked"].add(row["reward"]);
    const error = row["error"];
    if (isMapping(error)) increase(this.#failures, String(error["code"]));
    const metrics = row["_ng_token_capture"];
    if (isMapping(metrics)) this.#addMetrics(metrics);
    else if (this.#isSelected(row)) this.#notRebuilt++;
  }

  #addMetrics(metrics: Mapping): void {
    this.#withMetrics++;
    for (const code of new Set(warningCodes(metrics["warnings"]))) increase(this.#warnings, code);
    this.#calls.add(metrics["n_calls"]);
    this.#chains.add(metrics["chains"]);
    this.#captured += number(metrics["generated_tokens_captured"]);
    this.#delivered += number(metrics["generated_tokens_delivered"]);
    for (const code of new Set(maskReasonCodes(metrics["mask_reasons"])))
      increase(this.#maskReasons, code);
  }

  get counted(): Counted {
    const failed = Object.values(this.#failures).reduce((sum, count) => sum + count, 0);
    return {
      rollouts: this.#rows,
      completed: this.#rows - failed,
      masked: this.#masked,
      maskReasons: this.#maskReasons,
      meanReward: { unmasked: this.#reward.unmasked.value, masked: this.#reward.masked.value },
      meanCalls: this.#calls.value,
      meanChains: this.#chains.value,
      deliveredFraction: this.#captured === 0 ? null : this.#delivered / this.#captured,
      tokensCaptured: this.#captured,
      captured: this.#withMetrics,
      warnings: this.#warnings,
      notRebuilt: this.#notRebuilt,
      failures: this.#failures,
    };
  }
}

function increase(counts: Record<string, number>, key: string): void {
  counts[key] = (counts[key] ?? 0) + 1;
}

function number(value: unknown): number {
  return typeof value === "number" && Number.isFinite(value) ? value : 0;
}

/** Codes of `_ng_token_capture.mask_reasons`. */
function maskReasonCodes(reasons: unknown): string[] {
  if (!Array.isArray(reasons)) return [];
  return reasons.map((reason) => String(isMapping(reason) ? reason["code"] : reason));
}

function warningCodes(warnings: unknown): string[] {
  return Array.isArray(warnings) ? warnings.map(String) : [];
}

/**
 * True for a failure that is work not done. A policy that uses up its turns or its time is a result: the reward says what
 * it is worth.
 */
export function isFailure(code: string): boolean {
  return code !== "MAX_TURNS" && code !== "HARNESS_TIMEOUT";
}

/** Rows whose work was not done. */
export function failedRollouts({ failures }: Pick<RunSummary, "failures">): number {
  return Object.entries(failures)
    .filter(([code]) => isFailure(code))
    .reduce((sum, [, count]) => sum + count, 0);
}
