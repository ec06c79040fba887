export type {
  FinishedRollout,
  HarnessOutcome,
  HarnessRequest,
  RolloutFailure,
  RolloutRow,
  RolloutSlot,
  Task,
  TrainingStep,
} from "./actors/index.js";
export {
  finalizeRolloutTokenCapture,
  isTrainable,
  rebuildEntriesFile,
  retireRolloutTokenCapture,
  type TokenEntry,
  type TokenLineage,
  type TokenSink,
  type TokenSource,
} from "./capture/index.js";
export * from "./orchestrator/index.js";
