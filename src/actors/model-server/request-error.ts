/** A request that is refused, before any content byte was sent. A dialect gives it its own shape. */
export class RequestError extends Error {
  static {
    Object.defineProperty(RequestError.prototype, "name", { value: "RequestError" });
  }
  readonly code = "REQUEST_REFUSED";
  /** HTTP status. Never 401 or 429: Claude Code retries both for three minutes. */
  readonly status: 400 | 403 | 404 | 413 | 500 | 529;
  readonly retryAfterS: number | undefined;

  constructor(
    status: RequestError["status"],
    message: string,
    options: ErrorOptions & { readonly retryAfterS?: number } = {},
  ) {
    super(message, options);
    this.status = status;
    this.retryAfterS = options.retryAfterS;
  }
}

/** The refusal that an error amounts to; what is unknown is an overloaded server, which harnesses retry. */
export function asRequestError(error: unknown): RequestError {
  if (error instanceof RequestError) return error;
  const message = error instanceof Error ? error.message : String(error);
  return new RequestError(529, message, { cause: error, retryAfterS: 1 });
}
