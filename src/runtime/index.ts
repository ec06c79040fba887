export {
  type ActorContext,
  type ActorDefinition,
  type ActorSpec,
  defineActor,
  type TaskOptions,
} from "./define-actor.js";
export {
  ActorDiedError,
  ActorError,
  type ActorErrorCode,
  ActorNameError,
  ActorStartError,
  type DeathCause,
  type DeathReport,
  isActorError,
  RuntimeClosingError,
  SerializationError,
  TaskError,
} from "./errors.js";
export type { ActorMethods, ActorRef } from "./handle.js";
export type { ActorLogger, LogLevel } from "./logger.js";
export type { RuntimeOptions, SpawnOptions } from "./options.js";
export type { ActorState, ActorStatus } from "./registry.js";
export { createRuntime, type Runtime } from "./runtime.js";
export type { ShutdownReport } from "./shutdown.js";
