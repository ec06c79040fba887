export {
  type CaptureDecisions,
  type CaptureTarget,
  captureDecisions,
} from "./config/decisions.js";
export {
  type ConfigInput,
  describeConfig,
  type LoadConfigOptions,
  loadConfig,
} from "./config/load.js";
export type { CorralConfig } from "./config/schema.js";
export { ConfigError, type ConfigErrorCode, isConfigError } from "./errors.js";
export { explainRollout, inspectRollout, type RolloutExplanation } from "./explain-rollout.js";
export { type LaunchedRun, type LaunchRequest, launch, type ServerWorker } from "./launch.js";
export type { RunEvent, RunEventListener } from "./run-events.js";
export { type RunRolloutsRequest, runRollouts } from "./run-rollouts.js";
export { failedRollouts, type RunStop, type RunSummary } from "./run-summary.js";
export type { TasksInput } from "./tasks.js";
export { type VerifyReport, verifyRollouts } from "./verify-rollouts.js";
