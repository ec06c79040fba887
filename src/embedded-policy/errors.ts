/** Why the embedded policy refused. Decide by `code`, never by class: the error may have crossed a thread. */
export type PolicyErrorCode =
  /** The ids to score are no path of the grammar that the prompt compiles to. They were not sampled from this prompt. */
  | "OFF_GRAMMAR"
  /** A checkpoint file that cannot be read, is cut, or does not have the digest it names. */
  | "CHECKPOINT_INVALID"
  /** A checkpoint file of a newer format. It is never decoded. */
  | "CHECKPOINT_TOO_NEW"
  /** The Qwen3 tokenizer files are missing or not what they should be. `cause` has the reason. */
  | "VOCABULARY_UNREADABLE";

/** The one error class of `src/embedded-policy`. Arguments out of range are `RangeError`. */
export class PolicyError extends Error {
  static {
    Object.defineProperty(PolicyError.prototype, "name", { value: "PolicyError" });
  }
  readonly code: PolicyErrorCode;
  constructor(code: PolicyErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
