/** The three steps from a finished rollout to a delivered one, in their only safe order. */
import type { TokenSource } from "./contracts.js";
import {
  type FinalizedCapture,
  type FinalizeOptions,
  finalizeRolloutTokenCapture,
  type RolloutResult,
  retireRolloutTokenCapture,
} from "./delivery.js";

export interface DeliveredRollout {
  readonly built: FinalizedCapture;
  /** Its records were dropped. False for a masked row, and when the rollout changed after it was frozen. */
  readonly retired: boolean;
}

/**
 * Freezes and rebuilds, hands the row over, then drops exactly what was handed over.
 *
 * @param writeDurably Contract: resolves when the row would survive a crash. It gets masked rows too.
 * @throws what `writeDurably` throws; then nothing was dropped, and the same call may be repeated.
 */
export async function deliverRollout(
  result: RolloutResult,
  source: Pick<TokenSource, "freeze" | "drop">,
  writeDurably: (result: RolloutResult) => void | Promise<void>,
  options: FinalizeOptions = {},
): Promise<DeliveredRollout> {
  const built = await finalizeRolloutTokenCapture(result, source, options);
  await writeDurably(result);
  const retired = await retireRolloutTokenCapture(String(result._ng_rollout_id), source, built);
  return { built, retired };
}
