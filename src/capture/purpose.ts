/**
 * What a model call was made for. A label for people, for delivery, and for lineage behind a compaction;
 * it decides no token.
 *
 * U1. The label that was recorded with the call stands, unless the caller overrides it.
 * U2. A call that offers no tools, in a rollout whose other calls offer some, is no main call whatever it was
 *     recorded as: only the whole rollout shows that.
 */
import type { TokenEntry } from "./records.js";

export const CALL_PURPOSES = ["main", "subagent", "compaction", "title", "other"] as const;
export type CallPurpose = (typeof CALL_PURPOSES)[number];

/** Purposes whose tokens are trained unless the caller says otherwise: what the task's outcome depends on. */
export const TRAINED_PURPOSES: readonly CallPurpose[] = ["main", "subagent", "compaction"];

/** Overrides the purpose of a call; undefined leaves it. */
export type PurposeOverride = (entry: TokenEntry) => CallPurpose | undefined;

/** Call id → purpose. A record without one, and without an override, counts as main. */
export function settlePurposes(
  entries: readonly TokenEntry[],
  override: PurposeOverride = () => undefined,
): ReadonlyMap<string, CallPurpose> {
  const offersTools = entries.some((entry) => (entry.tools_offered ?? 0) > 0);
  return new Map(
    entries.map((entry) => [
      entry.model_call_id,
      override(entry) ?? settledPurpose(entry, offersTools),
    ]),
  );
}

function settledPurpose(entry: TokenEntry, othersOfferTools: boolean): CallPurpose {
  const recorded = CALL_PURPOSES.find((purpose) => purpose === entry.purpose);
  if (recorded === undefined) return entry.purpose === undefined ? "main" : "other";
  const toolless = entry.tools_offered === 0 && othersOfferTools;
  return recorded === "main" && toolless ? "other" : recorded; // U2
}
