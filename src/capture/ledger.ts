/** Compares what model-server workers counted in memory with what a snapshot holds. */
import type { MaskReason } from "./metrics.js";

/** What one model-server worker saw of a rollout; structural, the model server's ledger satisfies it. */
export interface CallLedger {
  readonly started: number;
  /** Ids of the calls whose record was acknowledged. */
  readonly recordedCallIds: readonly string[];
  readonly failed: number;
  readonly aborted: number;
  /** Calls that were answered although their record was lost. */
  readonly captureLost: number;
  /** Recorded calls whose answer the client did not take to its end. */
  readonly undeliveredCallIds?: readonly string[];
}

/** Reasons to mask; none when every count agrees. Ledgers that are absent are not checked. */
export function ledgerReasons(
  snapshotIds: ReadonlySet<string>,
  ledgers: readonly CallLedger[] | undefined,
  expectedCallIds: readonly string[] | undefined,
): MaskReason[] {
  const reasons: MaskReason[] = [];
  const lost = (ledgers ?? []).reduce((sum, ledger) => sum + ledger.captureLost, 0);
  // `!== 0` also masks for a count that is not a number.
  if (lost !== 0) reasons.push({ code: "CAPTURE_LOST", detail: String(lost) });
  const counts = [ledgers?.flatMap((ledger) => ledger.recordedCallIds), expectedCallIds] as const;
  for (const ids of counts) {
    const detail = ids === undefined ? "" : difference(new Set(ids), snapshotIds);
    if (detail !== "") reasons.push({ code: "LEDGER_MISMATCH", detail });
  }
  const open = (ledgers ?? []).reduce((sum, ledger) => sum + unaccounted(ledger), 0);
  if (lost === 0 && open > 0) {
    reasons.push({ code: "LEDGER_MISMATCH", detail: `${String(open)} calls without an outcome` });
  }
  return reasons;
}

function unaccounted({ started, recordedCallIds, failed, aborted }: CallLedger): number {
  return Math.max(0, started - recordedCallIds.length - failed - aborted);
}

function difference(counted: ReadonlySet<string>, stored: ReadonlySet<string>): string {
  const missing = [...counted].filter((id) => !stored.has(id)).map((id) => `-${id}`);
  const extra = [...stored].filter((id) => !counted.has(id)).map((id) => `+${id}`);
  return [...missing, ...extra].sort().join(" ");
}
