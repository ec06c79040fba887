/** What a trainer gets: one group of rollouts of one task, and its verdict on it. */
import type { DeliveryReport, RolloutRow, RolloutSlot, Task } from "../actors/index.js";
import { isTrainable, trajectoryRows } from "../capture/index.js";

/** One delivered rollout. A failed or masked one is a result with its reasons. */
export interface Rollout {
  readonly slot: RolloutSlot;
  readonly rolloutId: string;
  /** From 0. */
  readonly attempt: number;
  /** As a line of rollouts.jsonl. */
  readonly row: RolloutRow;
  readonly reward: number | null;
  /** The row is proven trainable (`isTrainable`) and not too old. */
  readonly trainable: boolean;
  /** Codes of why it is not: the failure, mask reasons, `NO_REWARD`, `STALE_POLICY`, `NOT_CAPTURED`. Never empty then. */
  readonly reasons: readonly string[];
  /** Versions that sampled it; null when nothing was captured. */
  readonly policyVersion: { readonly min: number; readonly max: number } | null;
}

export interface RolloutGroup {
  /** Its number in the run, from 1. */
  readonly pass: number;
  readonly task: Task;
  /** In the order of the rollout index. Fewer than asked for only when an earlier process had settled or left the others. */
  readonly rollouts: readonly Rollout[];
  /** Rows to take gradients on; with `delivery: all`, one for each trajectory. */
  readonly trainable: readonly RolloutRow[];
  /**
   * The trainer has what it took from these rollouts durably: their evidence is dropped, they never come again.
   * Idempotent. @throws APPEND_FAILED when that could not be recorded: call it again.
   */
  accept(): Promise<void>;
  /** The trainer does not want them: they never come again, their evidence stays. @throws as `accept`. */
  reject(reason: string): Promise<void>;
}

/** The parts of a group that the run decides. */
export interface GroupRules {
  /** Version of the weights now. */
  readonly policyVersion: number;
  /** A rollout whose oldest call is more versions behind is stale; undefined: never. */
  readonly maxPolicyLag: number | undefined;
}

/** Takes the verdict. */
export interface GroupVerdict {
  accept(rolloutIds: readonly string[]): Promise<void>;
  reject(rolloutIds: readonly string[], reason: string): Promise<void>;
}

export function rolloutOf(report: DeliveryReport, rules: GroupRules): Rollout {
  const { row, slot, rolloutId, reward } = report;
  if (row === undefined) throw new Error(`rollout ${rolloutId} was delivered without its row`);
  const policyVersion = versionsOf(row);
  const { maxPolicyLag } = rules;
  const stale =
    maxPolicyLag !== undefined &&
    policyVersion !== null &&
    rules.policyVersion - policyVersion.min > maxPolicyLag;
  const trainable = !stale && isTrainable(row);
  const reasons = [
    ...(report.error === undefined ? [] : [report.error.code]),
    ...report.maskReasons,
    ...(reward === null ? ["NO_REWARD"] : []),
    ...(stale ? ["STALE_POLICY"] : []),
    ...(row._ng_token_capture === undefined ? ["NOT_CAPTURED"] : []),
  ];
  if (!trainable && reasons.length === 0) reasons.push("NOT_TRAINABLE");
  const attempt = row["_ng_attempt"];
  return {
    slot,
    rolloutId,
    attempt: typeof attempt === "number" ? attempt : 0,
    row,
    reward,
    trainable,
    reasons,
    policyVersion,
  };
}

export function groupOf(
  about: { readonly pass: number; readonly task: Task },
  rollouts: readonly Rollout[],
  verdict: GroupVerdict,
): RolloutGroup {
  const ids = rollouts.map(({ rolloutId }) => rolloutId);
  let given: "accepted" | "rejected" | undefined;
  const settle = async (as: "accepted" | "rejected", record: () => Promise<void>) => {
    if (given === as) return;
    if (given !== undefined)
      throw new RangeError(`the group of task ${about.task._ng_task_index} was ${given} already`);
    await record();
    given = as;
  };
  return {
    ...about,
    rollouts,
    trainable: rollouts
      .filter(({ reasons }) => !reasons.includes("STALE_POLICY"))
      .flatMap(({ row }) => trajectoryRows(row))
      .filter(isTrainable),
    accept: () => settle("accepted", () => verdict.accept(ids)),
    reject: (reason) => settle("rejected", () => verdict.reject(ids, reason)),
  };
}

function versionsOf(row: RolloutRow): { min: number; max: number } | null {
  const metrics = row._ng_token_capture;
  if (typeof metrics !== "object" || metrics === null || !("policy_version" in metrics))
    return null;
  const version = metrics.policy_version;
  return typeof version === "object" && version !== null && "min" in version && "max" in version
    ? { min: Number(version.min), max: Number(version.max) }
    : null;
}
