/**
 * What the orchestrator refuses before any work starts. A `ConfigError` is the user's to fix (exit code 2): its message
 * opens with the key, option or field, then says what was found and what is allowed.
 */
export type ConfigErrorCode =
  /** A file named by an option does not exist or cannot be read. */
  | "FILE_NOT_FOUND"
  /** A file is not YAML, or not a mapping. */
  | "CONFIG_SYNTAX"
  /** A key that the schema does not have. */
  | "UNKNOWN_KEY"
  /** A value of the wrong type or outside its range. */
  | "INVALID_VALUE"
  /** `${oc.env:VAR}` without a default, and VAR is not set. */
  | "ENV_UNSET"
  /** An interpolation of another form, or one that selects nothing. */
  | "BAD_INTERPOLATION"
  /** Settings that are valid one by one and not together. */
  | "SETTINGS_CONFLICT"
  /** A setting whose mechanism this build does not have. */
  | "NOT_AVAILABLE"
  /** A line of the tasks file breaks a rule. */
  | "TASK_INVALID"
  /** A verifier or harness module does not load, or lacks the named export. */
  | "MODULE_INVALID"
  /** `--out` belongs to a run of other tasks or another group size, or to no run. */
  | "RUN_MISMATCH"
  /** The run directory cannot be created, written or found again. */
  | "RUN_DIRECTORY"
  /** What a key names does not start on this node. */
  | "START_FAILED"
  /** Nothing answers as a Corral server at the given URL. */
  | "SERVER_UNREACHABLE"
  /** Another process runs with the same `--out`. */
  | "RUN_LOCKED";

export class ConfigError extends Error {
  static {
    Object.defineProperty(ConfigError.prototype, "name", { value: "ConfigError" });
  }
  readonly code: ConfigErrorCode;
  /** The key, option or field that is wrong. */
  readonly field: string;
  constructor(code: ConfigErrorCode, field: string, problem: string, options?: ErrorOptions) {
    super(`${field}: ${problem}`, options);
    this.code = code;
    this.field = field;
  }
}

/** True for an error that the user fixes in the config, the tasks or the command line. */
export function isConfigError(error: unknown, code?: ConfigErrorCode): error is ConfigError {
  if (!(error instanceof Error) || error.name !== "ConfigError" || !("code" in error)) return false;
  return code === undefined || error.code === code;
}
