export { ActorGroup } from "./actor-group.js";
export type { ActorState } from "./actor-life.js";
export { ActorPool, type PoolWork } from "./actor-pool.js";
export type { ActorMethods, ActorStreams, NotCloneable } from "./actor-types.js";
export { move, type SharedView, type TypedArray } from "./buffers.js";
export {
  type ActorContext,
  type ActorDefinition,
  type ActorSpec,
  defineActor,
  type MethodOptions,
  type TaskOptions,
} from "./define-actor.js";
export {
  ActorDiedError,
  ActorError,
  type ActorErrorCode,
  ActorNameError,
  ActorStartError,
  CallCancelledError,
  type CallPhase,
  CallTimeoutError,
  type DeathCause,
  type DeathReport,
  isActorError,
  PendingCallsLimitError,
  RuntimeClosingError,
  SerializationError,
  TaskError,
} from "./errors.js";
export type { RuntimeEvent } from "./events.js";
export type { ActorRef } from "./handle.js";
export type { ActorLogger, LogLevel } from "./logger.js";
export type { GroupOptions, Route, RuntimeOptions, SpawnOptions } from "./options.js";
export type { CallOptions } from "./outgoing-call.js";
export type { ActorStatus } from "./registry.js";
export { createRuntime, type Runtime } from "./runtime.js";
export type { ShutdownReport } from "./shutdown.js";
export { wait } from "./wait.js";
