export {
  type BuildOptions,
  buildTrajectory,
  rebuildResponse,
  type TrajectoryBuild,
} from "./builder.js";
export * from "./contracts.js";
export * from "./conversation.js";
export {
  type FinalizedCapture,
  type FinalizeOptions,
  finalizeRolloutTokenCapture,
  type RolloutResult,
  retireRolloutTokenCapture,
} from "./delivery.js";
export { cumulativeDigest, entryDigest } from "./digest.js";
export { echoEquivalent } from "./echo.js";
export { type RebuiltRollout, rebuildEntries, rebuildEntriesFile } from "./entries-jsonl.js";
export { type EntryRow, encodeEntry } from "./entry-row.js";
export * from "./errors.js";
export { contextDigest, FINGERPRINT_VERSION, normalizeAssistantText } from "./fingerprint.js";
export type { CallLedger } from "./ledger.js";
export { type ParentVerdict, resolveParent, type UnresolvedReason } from "./lineage.js";
export type { MaskReason, TerminalAttribution, TokenCaptureMetrics } from "./metrics.js";
export { parseTokenEntry, tokenEntryToJson } from "./parse-entry.js";
export type { RebuiltResponse } from "./projection.js";
export type { BuildError } from "./record-problems.js";
export * from "./records.js";
export { acquireRunLock } from "./run-lock.js";
export {
  STORE_FILE_NAME,
  TokenCaptureStore,
  type TokenCaptureStoreOptions,
} from "./store.js";
export { BatchedWriter, type BatchWriter } from "./store-batch.js";
export * from "./store-protocol.js";
export { StoreSink, type StoreSinkOptions } from "./store-sink.js";
export type { Terminal } from "./terminal.js";
export { checkGeneration, type TokenLimits } from "./token-arrays.js";
export { isTrainable } from "./trainable.js";
