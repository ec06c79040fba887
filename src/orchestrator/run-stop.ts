/** How a run ends before its work is done. */

/** Why a run ended with rollouts left. */
export interface RunStop {
  readonly reason: "signal" | "deadline" | "mask_fraction";
  readonly message: string;
}

/** Ends the iterations of a launched run that may not go on; `reason` and message are those of a stopped `corral run`. */
export class RunStoppedError extends Error {
  static {
    Object.defineProperty(RunStoppedError.prototype, "name", { value: "RunStoppedError" });
  }
  readonly code = "RUN_STOPPED";
  readonly reason: RunStop["reason"];
  constructor({ reason, message }: RunStop) {
    super(`the run was stopped: ${message}`);
    this.reason = reason;
  }
}
