/**
 * From a finished rollout to a row that a trainer may read: freeze, rebuild, attach; later, retire.
 *
 * D1. `finalizeRolloutTokenCapture` never throws and never retires. What goes wrong masks the row and says why.
 * D2. A row is unmasked only when the snapshot is complete, equals every ledger given, and builds one clean chain.
 * D3. A result that carries its own generated ids is left as it is, and masked only when the snapshot disagrees.
 * D4. `retireRolloutTokenCapture` drops exactly the snapshot that was built, and only a successful, unmasked build.
 */
import type { BuildOptions, DeliveryMode, TrajectoryBuild } from "./build.js";
import { buildTrajectory, failedBuild } from "./builder.js";
import type { TokenCaptureSnapshot, TokenSource } from "./contracts.js";
import { type CallLedger, ledgerReasons } from "./ledger.js";
import type { MaskReason, TokenCaptureMetrics } from "./metrics.js";
import { parseTokenEntry } from "./parse-entry.js";
import { type ProjectionOptions, rebuildResponse } from "./projection.js";
import type { CallPurpose, PurposeOverride } from "./purpose.js";
import type { BuildError } from "./record-problems.js";
import type { TokenEntry } from "./records.js";
import { describeError, readSnapshot, rolloutIdProblem } from "./snapshot.js";
import type { Terminal } from "./terminal.js";
import { CheckedTokens } from "./token-arrays.js";
import { generatedItems, sameItems } from "./token-items.js";
import { rowTrajectories } from "./trajectory-rows.js";

/** A result row. Only these fields are looked at or written; all others are kept. */
export interface RolloutResult {
  _ng_rollout_id?: unknown;
  response?: unknown;
  mask_sample?: unknown;
  _ng_token_capture?: unknown;
  _ng_trajectories?: unknown;
  [field: string]: unknown;
}

export interface FinalizeOptions extends ProjectionOptions {
  /** Default `main`. `all` adds `_ng_trajectories` to the row. */
  readonly delivery?: DeliveryMode;
  readonly purposeOf?: PurposeOverride;
  /** Purposes whose trajectories are not masked in `all`. Default main, subagent, compaction. */
  readonly trainedPurposes?: readonly CallPurpose[];
  /** What each model-server worker counted. Their recorded calls, together, must be the snapshot's. */
  readonly ledgers?: readonly CallLedger[];
  /** Ids that must be the snapshot's, from another count. */
  readonly expectedCallIds?: readonly string[];
  readonly terminal?: Terminal;
  readonly extraMaskReasons?: readonly MaskReason[];
}

/** What `finalizeRolloutTokenCapture` did; `retireRolloutTokenCapture` needs it. */
export interface FinalizedCapture {
  /** Null when nothing could be frozen. */
  readonly snapshot: TokenCaptureSnapshot | null;
  readonly masked: boolean;
  readonly metrics: TokenCaptureMetrics | null;
  readonly error?: BuildError;
}

/**
 * Freezes the rollout's capture, rebuilds `response.output` and `response.usage` in place, attaches
 * `_ng_token_capture`, and sets `mask_sample: true` when the row must not be trained.
 */
export async function finalizeRolloutTokenCapture(
  result: RolloutResult,
  source: Pick<TokenSource, "freeze">,
  options: FinalizeOptions = {},
): Promise<FinalizedCapture> {
  let snapshot: TokenCaptureSnapshot | null = null;
  try {
    const rolloutId = result._ng_rollout_id;
    const problem = rolloutIdProblem(rolloutId);
    if (problem !== undefined) return maskFailed(result, null, "", options, problem);
    snapshot = readSnapshot(await source.freeze(String(rolloutId)), String(rolloutId));
    const own = generatedItems(result.response);
    if (own.length > 0) return keepOwnTokens(result, snapshot, own, options);
    const build = buildSnapshot(snapshot, withEarlierMask(result, options));
    if (build.error === undefined) writeResponse(result, build, options);
    return attach(result, snapshot, build);
  } catch (error) {
    return afterFailure(result, snapshot, options, describeError(error));
  }
}

/**
 * Drops the snapshot behind a row that is durable by now. Returns false when the build was masked or failed, when the
 * rollout changed after the freeze, or when the source could not drop it: the evidence stays.
 */
export async function retireRolloutTokenCapture(
  rolloutId: string,
  source: Pick<TokenSource, "drop">,
  built: FinalizedCapture,
): Promise<boolean> {
  const { snapshot, masked, error } = built;
  if (snapshot === null || masked || error !== undefined) return false;
  if (snapshot.rolloutId !== rolloutId) return false;
  const { snapshotId, version } = snapshot;
  try {
    return (await source.drop(rolloutId, { snapshotId, version })) === true;
  } catch {
    return false;
  }
}

function buildSnapshot(snapshot: TokenCaptureSnapshot, options: FinalizeOptions): TrajectoryBuild {
  const buildOptions = optionsOf(snapshot, options);
  let entries: TokenEntry[];
  try {
    entries = checkEntries(snapshot);
  } catch (error) {
    return failedBuild(snapshot.entries.length, buildOptions, describeError(error));
  }
  const ids = new Set(entries.map((entry) => entry.model_call_id));
  const ledger = ledgerReasons(ids, options.ledgers, options.expectedCallIds);
  const extraMaskReasons = [...ledger, ...(options.extraMaskReasons ?? [])];
  return buildTrajectory(entries, { ...buildOptions, extraMaskReasons });
}

/** A source of the user's own may hand over anything, also the JSON form or a newer record. */
function checkEntries({ entries }: TokenCaptureSnapshot): TokenEntry[] {
  const checked = new CheckedTokens();
  return entries.map((record) => {
    const checkedPromptLength = checked.lengthIn(record?.prompt_token_ids);
    const entry = parseTokenEntry(record, { checkedPromptLength });
    checked.note(entry.prompt_token_ids);
    return entry;
  });
}

function optionsOf(snapshot: TokenCaptureSnapshot, options: FinalizeOptions): BuildOptions {
  return {
    ...options,
    rolloutId: snapshot.rolloutId,
    incomplete: snapshot.incomplete,
    incompleteReasons: snapshot.incompleteReasons,
    failedCalls: snapshot.failedCalls,
    abortedCalls: snapshot.abortedCalls,
    undeliveredCallIds: (options.ledgers ?? []).flatMap(
      (ledger) => ledger.undeliveredCallIds ?? [],
    ),
  };
}

function writeResponse(
  result: RolloutResult,
  build: TrajectoryBuild,
  options: FinalizeOptions,
): void {
  const rebuilt = rebuildResponse(build, options);
  if (rebuilt === null) return;
  const { response } = result;
  if (typeof response === "object" && response !== null) {
    const { id: _id, model: _model, object: _object, ...rest } = rebuilt;
    Object.assign(response, rest);
  } else {
    result.response = rebuilt;
  }
  if (options.delivery === "all") result._ng_trajectories = rowTrajectories(build, options);
}

function attach(
  result: RolloutResult,
  snapshot: TokenCaptureSnapshot | null,
  build: TrajectoryBuild,
): FinalizedCapture {
  const masked = build.masked || isMasked(result);
  // The mask first: a row that cannot take the metrics must not look sound.
  if (masked) result.mask_sample = true;
  result._ng_token_capture = build.metrics;
  const { metrics, error } = build;
  return { snapshot, masked, metrics, ...(error === undefined ? {} : { error }) };
}

/** A row that came masked masks every trajectory in it. */
function withEarlierMask(result: RolloutResult, options: FinalizeOptions): FinalizeOptions {
  if (!isMasked(result)) return options;
  const reason = { code: "MASKED_BEFORE_CAPTURE" };
  return { ...options, extraMaskReasons: [reason, ...(options.extraMaskReasons ?? [])] };
}

function isMasked(result: RolloutResult): boolean {
  return result.mask_sample !== undefined && result.mask_sample !== false;
}

function maskFailed(
  result: RolloutResult,
  snapshot: TokenCaptureSnapshot | null,
  rolloutId: string,
  options: FinalizeOptions,
  error: BuildError,
): FinalizedCapture {
  const buildOptions = snapshot === null ? { rolloutId } : optionsOf(snapshot, options);
  return attach(result, snapshot, failedBuild(snapshot?.entries.length ?? 0, buildOptions, error));
}

/** The result itself may be what failed: a frozen object, a null. */
function afterFailure(
  result: RolloutResult,
  snapshot: TokenCaptureSnapshot | null,
  options: FinalizeOptions,
  error: BuildError,
): FinalizedCapture {
  try {
    if (snapshot === null && generatedItems(result.response).length > 0) {
      return { snapshot, masked: isMasked(result), metrics: null, error };
    }
    return maskFailed(result, snapshot, "", options, error);
  } catch {
    return { snapshot, masked: true, metrics: null, error };
  }
}

/** D3: the harness returned ids itself, so the capture is redundant evidence: dropped after hand-off when it agrees. */
function keepOwnTokens(
  result: RolloutResult,
  snapshot: TokenCaptureSnapshot,
  own: readonly unknown[],
  options: FinalizeOptions,
): FinalizedCapture {
  const build = buildSnapshot(snapshot, options);
  const recorded = generatedItems(rebuildResponse(build));
  const agrees = build.error === undefined && sameItems(own, recorded);
  if (agrees || snapshot.entries.length === 0) {
    if ((options.extraMaskReasons ?? []).length > 0) return attach(result, snapshot, build);
    return { snapshot, masked: isMasked(result), metrics: null };
  }
  const message = "the result's own token ids are not those that were recorded";
  const error = build.error ?? { code: "TOKEN_IDS_DISAGREE", message };
  return maskFailed(result, snapshot, snapshot.rolloutId, options, error);
}
