/** Bounds the records that masked rollouts leave in the store of a run. */
import type { PruneFrozen } from "../capture/index.js";
import type { CorralConfig } from "./config/schema.js";
import type { RunActors } from "./run-actors.js";

/** Keeps the newest, up to `keep_masked_mb`; without that setting all of them. Returns the ids of those that went. */
export async function pruneMasked(
  { token_id_capture: { keep_masked_mb } }: CorralConfig,
  { store }: Pick<RunActors, "store">,
  which: Pick<PruneFrozen, "only" | "except">,
): Promise<string[]> {
  if (store === undefined || keep_masked_mb === undefined) return [];
  const keepBytes = keep_masked_mb * 1e6;
  const pruned = await store.call.pruneFrozen({ olderThanMs: 0, keepBytes, ...which });
  return pruned.map(({ rolloutId }) => rolloutId);
}
