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
  type FlatTrajectory,
  finalizeRolloutTokenCapture,
  flattenTrajectory,
  isTrainable,
  rebuildEntriesFile,
  retireRolloutTokenCapture,
  type TokenEntry,
  type TokenLineage,
  type TokenSink,
  type TokenSource,
  trajectoryRows,
} from "./capture/index.js";
export * from "./orchestrator/index.js";
