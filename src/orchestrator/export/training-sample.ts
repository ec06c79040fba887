/** A trainable row, or one chain of it, as one token sequence. */
import { flattenTrajectory } from "../../capture/index.js";
import { isMapping, type Mapping } from "../config/merge.js";

export interface TrainingSample {
  readonly rolloutId: string;
  /** Which chain of the rollout: 0 is the one that the row shows. */
  readonly chain: number;
  readonly pass: number;
  readonly taskIndex: number;
  readonly rolloutIndex: number;
  readonly attempt: number;
  readonly reward: number;
  /** Calls of the chain. */
  readonly turns: number;
  /** Versions that sampled it, oldest and newest; null when the row does not say. */
  readonly policyVersion: { readonly min: number; readonly max: number } | null;
  /** int32[P]: everything before the first sampled token. */
  readonly promptIds: Int32Array;
  /** int32[R]: from the first sampled token on, later context included. */
  readonly responseIds: Int32Array;
  /** uint8[R]: 1 where the policy sampled the token. */
  readonly responseMask: Uint8Array;
  /** float64[R], natural log; 0 where the mask is 0. */
  readonly logProbs: Float64Array;
  readonly row: Mapping;
}

/** Contract: the row is trainable (`isTrainable`). */
export function trainingSample(row: Mapping): TrainingSample {
  const { tokenIds, lossMask, logProbs } = flattenTrajectory(row["response"]);
  const start = lossMask.indexOf(1);
  const number = (key: string) => (typeof row[key] === "number" ? row[key] : 0);
  const trajectory = row["_ng_trajectory"];
  const metrics = row["_ng_token_capture"];
  return {
    rolloutId: String(row["_ng_rollout_id"]),
    chain: isMapping(trajectory) ? Number(trajectory["index"]) : 0,
    pass: number("_ng_pass"),
    taskIndex: number("_ng_task_index"),
    rolloutIndex: number("_ng_rollout_index"),
    attempt: number("_ng_attempt"),
    reward: number("reward"),
    turns: generatedItems(row["response"]),
    policyVersion: versionsOf(isMapping(metrics) ? metrics["policy_version"] : undefined),
    promptIds: tokenIds.subarray(0, start),
    responseIds: tokenIds.subarray(start),
    responseMask: lossMask.subarray(start),
    logProbs: logProbs.subarray(start),
    row,
  };
}

function generatedItems(response: unknown): number {
  const output = isMapping(response) ? response["output"] : undefined;
  if (!Array.isArray(output)) return 0;
  return output.filter((item) => isMapping(item) && item["generation_token_ids"] !== undefined)
    .length;
}

function versionsOf(versions: unknown): { min: number; max: number } | null {
  if (!isMapping(versions)) return null;
  const { min, max } = versions;
  return typeof min === "number" && typeof max === "number" ? { min, max } : null;
}
