export type {
  FinishedRollout,
  HarnessOutcome,
  HarnessRequest,
  RolloutFailure,
  RolloutRow,
  RolloutSlot,
  Task,
} from "./actors/index.js";
export {
  type ConformanceSubject,
  type DeliveredRollout,
  deliverRollout,
  finalizeRolloutTokenCapture,
  isTrainable,
  rebuildEntriesFile,
  retireRolloutTokenCapture,
  runConformance,
  type TokenEntry,
  type TokenLineage,
  type TokenSink,
  type TokenSource,
} from "./capture/index.js";
export * from "./orchestrator/index.js";
