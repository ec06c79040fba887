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
export { loadCheckpoint } from "./embedded-policy/index.js";
export {
  isMockFault,
  MOCK_FAULTS,
  MOCK_SHAPES,
  type MockCall,
  MockEngine,
  type MockEngineOptions,
  type MockFault,
  type MockShape,
  type ScriptedAnswer,
} from "./mock-engine/index.js";
export * from "./orchestrator/index.js";
