/**
 * The trajectories that a row of `all` holds.
 *
 * R1. Each one stands in the row as a row would: its response, its own mask, its own metrics. The row itself is the
 *     first; the reward is the rollout's and belongs whole to each.
 */
import type { TrajectoryBuild } from "./build.js";
import { generatedTokens, type TokenCaptureMetrics } from "./metrics.js";
import { type ProjectionOptions, type RebuiltResponse, rebuildOthers } from "./projection.js";
import type { CallPurpose } from "./purpose.js";

/** One element of `_ng_trajectories`. */
export interface RowTrajectory {
  purpose: CallPurpose;
  mask_sample?: true;
  response: RebuiltResponse;
  _ng_token_capture: TokenCaptureMetrics;
}

/** The trajectories beside the one that the row shows. */
export function rowTrajectories(
  build: TrajectoryBuild,
  options: ProjectionOptions,
): RowTrajectory[] {
  const responses = rebuildOthers(build, options);
  return build.others.flatMap(({ chain, purpose, maskReasons }, index) => {
    const response = responses[index];
    if (response === undefined) return [];
    const metrics = {
      n_calls: chain.length,
      failed_calls: 0,
      aborted_calls: 0,
      generated_tokens_delivered: generatedTokens(chain),
      mask_reasons: [...maskReasons],
      warnings: [],
    };
    const mask = maskReasons.length > 0 ? { mask_sample: true as const } : {};
    return [{ purpose, ...mask, response, _ng_token_capture: metrics }];
  });
}

/**
 * Each trajectory of a row as a row of its own, the shown one first: `isTrainable` and every reader of rows work on
 * them. `_ng_trajectory` tells which one it is. A row of `main` gives itself.
 */
export function trajectoryRows<R extends object>(row: R): R[] {
  const { _ng_trajectories: others, ...shown } = row as R & { _ng_trajectories?: unknown };
  if (!Array.isArray(others)) return [row];
  const first = { ...shown, _ng_trajectory: { index: 0 } };
  const rest = others.map((other: object, index) => {
    const { mask_sample: _mask, ...fields } = shown as Record<string, unknown>;
    const { purpose, ...trajectory } = other as RowTrajectory;
    return { ...fields, ...trajectory, _ng_trajectory: { index: index + 1, purpose } };
  });
  return [first, ...rest] as unknown as R[];
}
