export { checkConformance, type NamedAdapters } from "./check-conformance.js";
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
export { type DoctorCheck, examine } from "./doctor.js";
export { createTrainer, type Trainer, type TrainerOptions } from "./embedded-trainer.js";
export { ConfigError, type ConfigErrorCode, isConfigError } from "./errors.js";
export { explainRollout, inspectRollout, type RolloutExplanation } from "./explain-rollout.js";
export {
  EXPORT_FORMATS,
  type ExportFormat,
  type ExportReport,
  type ExportRequest,
  exportRollouts,
} from "./export/export-rollouts.js";
export { type InspectedStore, inspectStores } from "./inspect-stores.js";
export { installTokenSource } from "./installed-source.js";
export { launch } from "./launch.js";
export type { PolicyPush } from "./policy-update.js";
export { type PrunedRun, type PruneRequest, pruneStores } from "./prune-stores.js";
export type { Rollout, RolloutGroup } from "./rollout-group.js";
export type {
  BaseUrlDialect,
  LaunchOptions,
  RolloutGroupsOptions,
  Run,
  SingleRollout,
} from "./run-api.js";
export type { RolloutFigures, RunStats } from "./run-counts.js";
export type { RunEvent, RunEventListener } from "./run-events.js";
export { type RunRolloutsRequest, runRollouts } from "./run-rollouts.js";
export { type RunStop, RunStoppedError } from "./run-stop.js";
export { failedRollouts, type RunSummary } from "./run-summary.js";
export { type Served, type ServeRequest, serve } from "./serve.js";
export type { TasksInput } from "./tasks.js";
export { type VerifyReport, verifyRollouts } from "./verify-rollouts.js";
