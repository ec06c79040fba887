/**
 * Every failure of the runtime itself is an `ActorError` with one of these codes. A method's own error reaches its
 * caller as it was thrown. Decide by `code`, never by class: the error may have crossed a thread.
 */
export type ActorErrorCode =
  /** The actor never became ready: its module, its options or its `create` failed. `cause` has the error. */
  | "ACTOR_START_FAILED"
  /** The actor is dead. `report` says why. */
  | "ACTOR_DIED"
  /** An argument, a result or a spawn option cannot cross a thread. */
  | "NOT_CLONEABLE"
  /** The actor has no method of this name. */
  | "METHOD_NOT_FOUND"
  /** A live actor holds the name in its namespace. */
  | "ACTOR_NAME_TAKEN"
  /** The actor has `maxPendingCalls` calls that have not ended, and `onFull` is `reject`. */
  | "PENDING_CALLS_LIMIT"
  /** The call did not end within its `timeoutMs`. `phase` says whether it had been sent. */
  | "CALL_TIMEOUT"
  /** The call's signal, or the one of the call it was made in, was aborted. `phase` says whether it had been sent. */
  | "CALL_CANCELLED"
  /** `shutdown` has begun: nothing new is spawned and no new task is taken. */
  | "RUNTIME_CLOSING"
  /** A task ran longer than its `timeoutMs` and its thread was ended. */
  | "TASK_TIMEOUT"
  /** A task's thread died under it, or the actor that asked for the task died. */
  | "TASK_DIED";

/**
 * Why an actor's thread ended. `exit` is an exit nobody asked for, whatever its code; `hang` is an event loop that
 * did not turn for `hangTimeoutMs`.
 */
export type DeathCause =
  | "exit"
  | "error"
  | "oom"
  | "hang"
  | "killed"
  | "stopped"
  | "start-failed"
  | "unhandled-rejection";

/** What is known about a dead actor. */
export interface DeathReport {
  readonly cause: DeathCause;
  /** Exit code of the thread; null when the thread would not die or nobody could tell. */
  readonly exitCode: number | null;
  /** What was thrown, where something was. */
  readonly error?: unknown;
  /** The method that started last, whoever called it. */
  readonly lastMethod?: string;
  /** Last lines of log, stdout and stderr, oldest first; at most 20. */
  readonly lastLogs: readonly string[];
  /** From the start of the thread to its end. */
  readonly uptimeMs: number;
  /** How often the actor was restarted before this death. */
  readonly restarts: number;
}

/** Where a call was when it was given up: `queued` never starts; `running` was sent, and may go on. */
export type CallPhase = "queued" | "running";

/** Base of the runtime's errors. */
export class ActorError extends Error {
  static {
    Object.defineProperty(ActorError.prototype, "name", { value: "ActorError" });
  }
  readonly code: ActorErrorCode;
  constructor(code: ActorErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** Thrown by `spawn` when the actor never became ready. `cause` is the error of the module, the options or `create`. */
export class ActorStartError extends ActorError {
  static {
    Object.defineProperty(ActorStartError.prototype, "name", { value: "ActorStartError" });
  }
  readonly actorId: string;
  /** Absent when the options were refused before a thread was started. */
  readonly report?: DeathReport;
  constructor(actorId: string, message: string, options: ErrorOptions, report?: DeathReport) {
    super("ACTOR_START_FAILED", message, options);
    this.actorId = actorId;
    if (report !== undefined) this.report = report;
  }
}

/** Rejects every pending and every later call of a dead actor. */
export class ActorDiedError extends ActorError {
  static {
    Object.defineProperty(ActorDiedError.prototype, "name", { value: "ActorDiedError" });
  }
  readonly actorId: string;
  readonly report: DeathReport;
  /** False only when the call certainly did not start. */
  readonly maybeExecuted: boolean;
  constructor(actor: ActorLabel, report: DeathReport, maybeExecuted: boolean, method?: string) {
    const options = report.error === undefined ? undefined : { cause: report.error };
    super("ACTOR_DIED", diedMessage(actor, report, method), options);
    this.actorId = actor.id;
    this.report = report;
    this.maybeExecuted = maybeExecuted;
  }
}

/** Rejects only the call whose argument or result cannot cross a thread. */
export class SerializationError extends ActorError {
  static {
    Object.defineProperty(SerializationError.prototype, "name", { value: "SerializationError" });
  }
  readonly actorId: string;
  readonly method: string;
  constructor(actor: ActorLabel, method: string, what: string, options?: ErrorOptions) {
    super("NOT_CLONEABLE", `${labelText(actor)}, ${method}: ${what}`, options);
    this.actorId = actor.id;
    this.method = method;
  }
}

/** Rejects a call made while the actor has `limit` pending ones. It was not queued and may be made again. */
export class PendingCallsLimitError extends ActorError {
  static {
    Object.defineProperty(PendingCallsLimitError.prototype, "name", {
      value: "PendingCallsLimitError",
    });
  }
  readonly actorId: string;
  readonly limit: number;
  constructor(actor: ActorLabel, method: string, limit: number) {
    const message = `${labelText(actor)}, ${method}: maxPendingCalls ${limit} is reached`;
    super("PENDING_CALLS_LIMIT", message);
    this.actorId = actor.id;
    this.limit = limit;
  }
}

/** Rejects a call that did not end in time. The actor is told, as at a cancellation. */
export class CallTimeoutError extends ActorError {
  static {
    Object.defineProperty(CallTimeoutError.prototype, "name", { value: "CallTimeoutError" });
  }
  readonly actorId: string;
  readonly method: string;
  readonly timeoutMs: number;
  readonly phase: CallPhase;
  constructor(actor: ActorLabel, method: string, timeoutMs: number, phase: CallPhase) {
    const message = `${labelText(actor)}, ${method}: timeoutMs ${timeoutMs} is over; the call was ${phase}`;
    super("CALL_TIMEOUT", message);
    this.actorId = actor.id;
    this.method = method;
    this.timeoutMs = timeoutMs;
    this.phase = phase;
  }
}

/** Rejects a call whose signal was aborted; `cause` is the signal's reason. */
export class CallCancelledError extends ActorError {
  static {
    Object.defineProperty(CallCancelledError.prototype, "name", { value: "CallCancelledError" });
  }
  readonly actorId: string;
  readonly method: string;
  readonly phase: CallPhase;
  constructor(actor: ActorLabel, method: string, phase: CallPhase, reason: unknown) {
    const message = `${labelText(actor)}, ${method}: cancelled; the call was ${phase}`;
    super("CALL_CANCELLED", message, { cause: reason });
    this.actorId = actor.id;
    this.method = method;
    this.phase = phase;
  }
}

/** Thrown by `spawn` when a live actor holds the name. */
export class ActorNameError extends ActorError {
  static {
    Object.defineProperty(ActorNameError.prototype, "name", { value: "ActorNameError" });
  }
  /** The name that was asked for. */
  readonly actorName: string;
  readonly namespace: string;
  constructor(actorName: string, namespace: string, holder: string) {
    super(
      "ACTOR_NAME_TAKEN",
      `The name "${actorName}" in namespace "${namespace}" is held by the live ${holder}.`,
    );
    this.actorName = actorName;
    this.namespace = namespace;
  }
}

/** Thrown for new work once `shutdown` has begun. */
export class RuntimeClosingError extends ActorError {
  static {
    Object.defineProperty(RuntimeClosingError.prototype, "name", { value: "RuntimeClosingError" });
  }
  constructor(what: string) {
    super("RUNTIME_CLOSING", `The runtime is shutting down: ${what} is refused.`);
  }
}

/** Rejects a task that outlived its `timeoutMs` (`TASK_TIMEOUT`) or lost its thread (`TASK_DIED`). */
export class TaskError extends ActorError {
  static {
    Object.defineProperty(TaskError.prototype, "name", { value: "TaskError" });
  }
  /** `module#export`. */
  readonly task: string;
  constructor(code: "TASK_TIMEOUT" | "TASK_DIED", task: string, what: string, cause?: unknown) {
    super(code, `Task ${task} ${what}.`, cause === undefined ? undefined : { cause });
    this.task = task;
  }
}

/** How an actor is named in messages. */
export interface ActorLabel {
  readonly id: string;
  readonly name: string | undefined;
}

/** `actor counter-1`, or `actor "main" (counter-1)`. */
export function labelText(actor: ActorLabel): string {
  return actor.name === undefined ? `actor ${actor.id}` : `actor "${actor.name}" (${actor.id})`;
}

/** True for an error of the runtime, also one that crossed a thread. */
export function isActorError(error: unknown, code?: ActorErrorCode): error is ActorError {
  if (!(error instanceof Error) || !("code" in error) || !ACTOR_ERROR_CLASSES.has(error.name))
    return false;
  return code === undefined || error.code === code;
}

/** By `name`: what an error that crossed a thread is given back as its prototype. */
export const ACTOR_ERROR_CLASSES: ReadonlyMap<string, { readonly prototype: ActorError }> = new Map(
  Object.entries({
    ActorError,
    ActorStartError,
    ActorDiedError,
    SerializationError,
    PendingCallsLimitError,
    CallTimeoutError,
    CallCancelledError,
    ActorNameError,
    RuntimeClosingError,
    TaskError,
  }),
);

function diedMessage(actor: ActorLabel, report: DeathReport, method: string | undefined): string {
  const exit = report.exitCode === null ? "" : `, exit code ${report.exitCode}`;
  const why = report.error instanceof Error ? `: ${report.error.message}` : "";
  const during = report.lastMethod === undefined ? "" : `; last method ${report.lastMethod}`;
  const call = method === undefined ? "" : `${method}: `;
  const logs = report.lastLogs.length === 0 ? "" : `; last log: ${report.lastLogs.at(-1)}`;
  const restarts = report.restarts === 0 ? "" : `; restarted ${report.restarts} times before`;
  return `${call}${labelText(actor)} is dead (${report.cause}${exit})${why}${during}${logs}${restarts}`;
}
