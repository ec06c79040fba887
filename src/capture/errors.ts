/**
 * Every failure of the capture layer is a `CaptureError` with one of these codes. Decide by `code`, never by class:
 * the error may have crossed a thread.
 */
export type CaptureErrorCode =
  /** A record breaks a rule of the format: an id out of range, a log probability that is not finite, arrays of unlike length. */
  | "RECORD_INVALID"
  /** Two output items claim the token arrays of one call. */
  | "MULTIPLE_TOKEN_CARRIERS"
  /** The same call id was put again with another payload. The rollout is incomplete. */
  | "RECORD_CONFLICT"
  /** The rollout was frozen before the write arrived. The rollout is incomplete. */
  | "ROLLOUT_FROZEN"
  /** The rollout was delivered and dropped; its tombstone refuses the write. */
  | "ROLLOUT_RETIRED"
  /** `open` met a rollout id that exists already. */
  | "ROLLOUT_EXISTS"
  /** The write began before a `reset` of its rollout. */
  | "STALE_EPOCH"
  /** A record, or the store file, was written by a newer version. It is never decoded. */
  | "SCHEMA_TOO_NEW"
  /** A stored record no longer has the digest it was stored with. */
  | "DIGEST_MISMATCH"
  /** No entry has this call id. */
  | "CALL_NOT_FOUND"
  /** The store was closed, or its file was removed or replaced under it. */
  | "STORE_CLOSED"
  /** SQLite refused: disk full, read-only directory, corrupt file. `cause` has its error. */
  | "STORE_FAILED"
  /** The directory lies on a network file system and `allow_network_fs` is off. */
  | "NETWORK_FILE_SYSTEM"
  /** No chain can be built from the entries. */
  | "NO_SAFE_CHAIN"
  /** An adapter does not keep a contract; the message names the check. */
  | "CONFORMANCE_FAILED"
  /** Another process holds the run directory. */
  | "RUN_LOCKED";

/** The one error class of `src/capture`. */
export class CaptureError extends Error {
  static {
    Object.defineProperty(CaptureError.prototype, "name", { value: "CaptureError" });
  }
  readonly code: CaptureErrorCode;
  constructor(code: CaptureErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** True for a `CaptureError`, also one that crossed a thread and lost its class. */
export function isCaptureError(error: unknown, code?: CaptureErrorCode): error is CaptureError {
  if (!(error instanceof Error) || error.name !== "CaptureError" || !("code" in error))
    return false;
  return code === undefined || error.code === code;
}
