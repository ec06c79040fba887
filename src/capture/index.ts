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
export { echoEquivalent } from "./echo.js";
export { type RebuiltRollout, rebuildEntries, rebuildEntriesFile } from "./entries-jsonl.js";
export * from "./errors.js";
export { contextDigest, FINGERPRINT_VERSION, normalizeAssistantText } from "./fingerprint.js";
export type { CallLedger } from "./ledger.js";
export { type ParentVerdict, resolveParent, type UnresolvedReason } from "./lineage.js";
export type { MaskReason, TerminalAttribution, TokenCaptureMetrics } from "./metrics.js";
export type { RebuiltResponse } from "./projection.js";
export type { BuildError } from "./record-problems.js";
export * from "./records.js";
export type { Terminal } from "./terminal.js";
export { isTrainable } from "./trainable.js";
