export type AgentHarnessErrorCode =
  /** The harness program is not installed, or does not start. */
  | "HARNESS_NOT_FOUND"
  /** The isolation that was asked for is not to be had here. */
  | "ISOLATION_FAILED"
  /** A function harness's module or export cannot be used. */
  | "HARNESS_MODULE_INVALID"
  /** An option is missing, unknown or out of range. */
  | "OPTIONS_INVALID"
  /** A task cannot be laid out or prompted: a bad `files` key, no user message. */
  | "TASK_INVALID"
  /** A verifier asked for a file that it must not read. */
  | "WORK_FILE_REFUSED"
  /** The process that cleans up after us does not run. */
  | "WATCHDOG_FAILED";

/** The one error class of the agent harness. A failed rollout is not an error but an outcome. */
export class AgentHarnessError extends Error {
  static {
    Object.defineProperty(AgentHarnessError.prototype, "name", { value: "AgentHarnessError" });
  }
  readonly code: AgentHarnessErrorCode;
  constructor(code: AgentHarnessErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
