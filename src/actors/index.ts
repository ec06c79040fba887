export { agentHarness } from "./agent-harness/agent-harness.actor.js";
export type { AgentHarness } from "./agent-harness/agent-harness.js";
export type {
  FunctionHarnessContext,
  FunctionHarnessFunction,
} from "./agent-harness/kinds/function.js";
export type { AgentHarnessOptions } from "./agent-harness/options.js";
export { taskPrompt } from "./agent-harness/prompt.js";
export { checkTaskFiles } from "./agent-harness/task-files.js";
export { readWorkFile } from "./agent-harness/verifier-files.js";
export type { Verifier, VerifierInput } from "./agent-harness/verify.js";
export {
  CaptureStore,
  type CaptureStoreOptions,
  captureStore,
} from "./capture-store/capture-store.actor.js";
export { ENGINE_KINDS, type EngineOptions, HTTP_ENGINES } from "./model-server/engines/options.js";
export { modelServer } from "./model-server/model-server.actor.js";
export type { EngineReport, ModelServer, ModelServerStatus } from "./model-server/model-server.js";
export {
  type CaptureDescriptor,
  type CaptureStoreRef,
  type ModelServerLimits,
  type ModelServerOptions,
  SamplingOverrides,
} from "./model-server/options.js";
export { rolloutKey } from "./model-server/rollout-key.js";
export type { OpenedRollout, RolloutOpening } from "./model-server/rollouts.js";
export type { PolicyTrainerOptions } from "./policy-trainer/options.js";
export { policyTrainer } from "./policy-trainer/policy-trainer.actor.js";
export type { PolicyTrainer, TrainingStep } from "./policy-trainer/policy-trainer.js";
export {
  Attachment,
  askServer,
  Capabilities,
  CONTROL_PATH,
  ControlCall,
} from "./remote-server/control.js";
export {
  type RemoteStore,
  type RemoteWorker,
  remoteStore,
  remoteWorker,
} from "./remote-server/remote-server.actor.js";
export * from "./rollout.js";
export { CaptureEvidence } from "./rollout-consumer/capture-evidence.js";
export type { SlotAttempt } from "./rollout-consumer/journal.js";
export { Journal, type JournaledRollout, slotKey } from "./rollout-consumer/journal.js";
export { JournalRecord } from "./rollout-consumer/journal-record.js";
export type { RolloutConsumerOptions, RolloutSealer } from "./rollout-consumer/options.js";
export type { DeliveryReport, Recovery } from "./rollout-consumer/report.js";
export { rolloutConsumer } from "./rollout-consumer/rollout-consumer.actor.js";
export { RolloutConsumer } from "./rollout-consumer/rollout-consumer.js";
export { textRow } from "./rollout-consumer/row.js";
export { buildUserClass, type UserClassRole } from "./user-class.js";
