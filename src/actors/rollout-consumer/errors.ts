export type RolloutConsumerErrorCode =
  /** An option is missing, unknown or out of range. */
  | "OPTIONS_INVALID"
  /** A line of the journal or of the rows, not the last, cannot be read. Nothing is guessed: move the file away. */
  | "FILE_CORRUPT"
  /** A rollout that is accepted or rejected was not delivered to a trainer, or has its verdict already. */
  | "NOT_HELD"
  /** A line could not be made durable: disk full, file gone. */
  | "APPEND_FAILED";

/** The one error class of the rollout consumer. */
export class RolloutConsumerError extends Error {
  static {
    Object.defineProperty(RolloutConsumerError.prototype, "name", {
      value: "RolloutConsumerError",
    });
  }
  readonly code: RolloutConsumerErrorCode;
  constructor(code: RolloutConsumerErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
