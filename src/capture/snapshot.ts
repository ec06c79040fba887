/** Reads what a source of unknown make handed over, and turns what failed into an error with a code. */

import type { TokenCaptureSnapshot } from "./contracts.js";
import { CaptureError } from "./errors.js";
import type { BuildError } from "./record-problems.js";

const ROLLOUT_ID = /^[A-Za-z0-9][A-Za-z0-9._-]*$/;
const ROLLOUT_ID_MAX_LENGTH = 200;

/** Undefined when `id` may name a rollout. */
export function rolloutIdProblem(id: unknown): BuildError | undefined {
  if (id === undefined || id === null || id === "") {
    return { code: "ROLLOUT_ID_MISSING", message: "the result has no _ng_rollout_id" };
  }
  if (typeof id === "string" && id.length <= ROLLOUT_ID_MAX_LENGTH && ROLLOUT_ID.test(id)) {
    return undefined;
  }
  const shown = JSON.stringify(id)?.slice(0, 80) ?? typeof id;
  const allowed = `letters, digits, ".", "_" and "-", a letter or digit first, at most ${String(ROLLOUT_ID_MAX_LENGTH)}`;
  return { code: "ROLLOUT_ID_INVALID", message: `_ng_rollout_id is ${shown}; allowed: ${allowed}` };
}

/**
 * The snapshot with the optional parts filled in. A source that does not say whether it is complete is refused.
 * @throws RECORD_INVALID when it is not a snapshot of that rollout.
 */
export function readSnapshot(value: unknown, rolloutId: string): TokenCaptureSnapshot {
  const snapshot = (value ?? {}) as Partial<TokenCaptureSnapshot>;
  const { entries, incomplete, snapshotId, version } = snapshot;
  const wrong =
    (!Array.isArray(entries) && "entries") ||
    (typeof incomplete !== "boolean" && "incomplete") ||
    (typeof snapshotId !== "string" && "snapshotId") ||
    (typeof version !== "number" && "version") ||
    ((snapshot.rolloutId ?? rolloutId) !== rolloutId && "rolloutId");
  if (wrong !== false || entries === undefined || snapshotId === undefined) {
    throw new CaptureError("RECORD_INVALID", `the source's snapshot has no valid ${String(wrong)}`);
  }
  return {
    rolloutId,
    entries,
    incomplete: incomplete ?? true,
    incompleteReasons: snapshot.incompleteReasons ?? [],
    failedCalls: snapshot.failedCalls ?? 0,
    abortedCalls: snapshot.abortedCalls ?? 0,
    snapshotId,
    version: version ?? 0,
  };
}

/** Code and message of anything thrown; `FREEZE_FAILED` when it has no code of its own. */
export function describeError(error: unknown): BuildError {
  const message = error instanceof Error ? error.message : String(error);
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  return { code: typeof code === "string" ? code : "FREEZE_FAILED", message };
}
