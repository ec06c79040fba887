export type { BuildOptions, DeliveryMode, SideTrajectory, TrajectoryBuild } from "./build.js";
export { buildTrajectory } from "./builder.js";
export {
  type ConformanceOptions,
  type ConformanceSubject,
  runConformance,
} from "./conformance.js";
export * from "./contracts.js";
export * from "./conversation.js";
export { type DeliveredRollout, deliverRollout } from "./deliver-rollout.js";
export {
  type FinalizedCapture,
  type FinalizeOptions,
  finalizeRolloutTokenCapture,
  type RolloutResult,
  retireRolloutTokenCapture,
} from "./delivery.js";
export { cumulativeDigest, entryDigest } from "./digest.js";
export { echoEquivalent } from "./echo.js";
export {
  type RebuildOptions,
  type RebuiltRollout,
  rebuildEntries,
  rebuildEntriesFile,
} from "./entries-jsonl.js";
export { type EntryRow, encodeEntry } from "./entry-row.js";
export * from "./errors.js";
export {
  type ChainBreak,
  type DecodeTokens,
  explainBreaks,
  type TokenDifference,
} from "./explain.js";
export { type FileLine, fileLines, lineTooLong } from "./file-lines.js";
export { contextDigest, FINGERPRINT_VERSION, normalizeAssistantText } from "./fingerprint.js";
export { type FlatTrajectory, flattenTrajectory } from "./flatten.js";
export type { CallLedger } from "./ledger.js";
export {
  type Compaction,
  type ParentVerdict,
  resolveParent,
  type UnresolvedReason,
} from "./lineage.js";
export type { MaskReason, TerminalAttribution, TokenCaptureMetrics } from "./metrics.js";
export { parseTokenEntry, tokenEntryToJson } from "./parse-entry.js";
export {
  type OutputForm,
  type ProjectionOptions,
  type RebuiltResponse,
  rebuildOthers,
  rebuildResponse,
} from "./projection.js";
export { CALL_PURPOSES, type CallPurpose, TRAINED_PURPOSES } from "./purpose.js";
export type { BuildError } from "./record-problems.js";
export * from "./records.js";
export { type RolloutTree, rolloutTree, type TreeCall } from "./rollout-tree.js";
export { acquireRunLock } from "./run-lock.js";
export {
  STORE_FILE_NAME,
  TokenCaptureStore,
  type TokenCaptureStoreOptions,
} from "./store.js";
export { BatchedWriter, type BatchWriter } from "./store-batch.js";
export type { PrunedRollout, PruneFrozen } from "./store-operations.js";
export * from "./store-protocol.js";
export { StoreSink, type StoreSinkOptions } from "./store-sink.js";
export type { StoreSummary } from "./store-summary.js";
export type { Terminal } from "./terminal.js";
export { checkGeneration, type TokenLimits } from "./token-arrays.js";
export { isTrainable } from "./trainable.js";
export { type RowTrajectory, trajectoryRows } from "./trajectory-rows.js";
