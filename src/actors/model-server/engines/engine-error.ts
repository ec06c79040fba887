/** Why an engine gave no answer that can be used. Decide by `code`. */
export type EngineErrorCode =
  /** Nothing listens, or every replica declined. Nothing was generated. */
  | "ENGINE_UNAVAILABLE"
  /** No answer within the deadline. */
  | "ENGINE_TIMEOUT"
  /** The request itself was refused (4xx): no retry would change that. */
  | "ENGINE_REFUSED"
  /** The engine broke off: 5xx, a closed connection, an abort. Something may have been generated. */
  | "ENGINE_FAILED"
  /** An answer that is not what this kind of engine answers. */
  | "ENGINE_REPLY_INVALID"
  /** The start check found that the server cannot do what its kind needs; the message names the flag. */
  | "ENGINE_MISCONFIGURED"
  /** The engine cannot do what is asked for. */
  | "ENGINE_CANNOT";

export class EngineError extends Error {
  static {
    Object.defineProperty(EngineError.prototype, "name", { value: "EngineError" });
  }
  readonly code: EngineErrorCode;

  constructor(code: EngineErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** The code of an engine's error, also of one that crossed a thread. */
export function engineErrorCode(error: unknown): EngineErrorCode | undefined {
  if (!(error instanceof Error) || error.name !== "EngineError" || !("code" in error))
    return undefined;
  return error.code as EngineErrorCode;
}
