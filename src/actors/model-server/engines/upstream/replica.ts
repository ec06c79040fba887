/** One inference server: a pool of connections, how busy it is, whether it answers. */
import { errors, Pool } from "undici";
import { EngineError } from "../engine-error.js";

export interface ReplicaOptions {
  /** Connections at a time; further calls wait for one. */
  readonly connections: number;
  readonly connectTimeoutMs: number;
  readonly headers: Readonly<Record<string, string>>;
}

export interface ReplicaReply {
  readonly status: number;
  readonly contentType: string;
  /** Seconds, where the server says so. */
  readonly retryAfterS: number | undefined;
  readonly bytes: Buffer;
}

/** Uvicorn closes an idle connection after 5 s without saying so; a request must not meet that. */
const KEEP_ALIVE_MS = 3000;

/** Codes of failures before a request left: nothing can have been generated. */
const NOT_SENT = new Set([
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "UND_ERR_CONNECT_TIMEOUT",
]);

export class Replica {
  /** Without a trailing slash. */
  readonly url: string;
  isHealthy = true;
  readonly #pool: Pool;
  readonly #prefix: string;
  readonly #headers: Readonly<Record<string, string>>;
  #inFlight = 0;

  constructor(url: string, options: ReplicaOptions) {
    const parsed = new URL(url);
    this.url = url.replace(/\/+$/, "");
    this.#prefix = parsed.pathname.replace(/\/+$/, "");
    this.#headers = options.headers;
    this.#pool = new Pool(parsed.origin, {
      connections: options.connections,
      pipelining: 1,
      connect: { timeout: options.connectTimeoutMs },
      keepAliveTimeout: KEEP_ALIVE_MS,
      keepAliveMaxTimeout: KEEP_ALIVE_MS,
      // The caller's deadline ends a call; a long generation sends nothing for minutes.
      headersTimeout: 0,
      bodyTimeout: 0,
    });
  }

  /** Calls that were sent and not answered. */
  get inFlight(): number {
    return this.#inFlight;
  }

  /**
   * @throws ENGINE_UNAVAILABLE when the request did not leave, ENGINE_FAILED when the connection broke after that, and
   * the signal's reason when it was aborted: the connection is closed, which is how servers learn to stop.
   */
  async request(
    method: "GET" | "POST",
    path: string,
    body: string | Uint8Array | undefined,
    signal: AbortSignal,
  ): Promise<ReplicaReply> {
    this.#inFlight += 1;
    try {
      const reply = await this.#pool.request({
        method,
        path: `${this.#prefix}${path}`,
        headers: { ...this.#headers, ...(body === undefined ? {} : JSON_HEADERS) },
        body: body ?? null,
        signal,
      });
      const { statusCode, headers } = reply;
      return {
        status: statusCode,
        contentType: String(headers["content-type"] ?? ""),
        retryAfterS: secondsOf(headers["retry-after"]),
        bytes: Buffer.from(await reply.body.arrayBuffer()),
      };
    } catch (error) {
      if (signal.aborted) throw signal.reason as Error;
      throw connectionError(error, this.url);
    } finally {
      this.#inFlight -= 1;
    }
  }

  /** Waits for calls in flight. */
  close(): Promise<void> {
    return this.#pool.close();
  }

  /** Breaks calls in flight off. */
  destroy(): Promise<void> {
    return this.#pool.destroy();
  }
}

const JSON_HEADERS = { "content-type": "application/json" };

function secondsOf(header: string | string[] | undefined): number | undefined {
  const seconds = Number(header);
  return header !== undefined && Number.isFinite(seconds) && seconds >= 0 ? seconds : undefined;
}

function connectionError(error: unknown, url: string): EngineError {
  const { code, message } = error as { code?: unknown; message?: unknown };
  const codes = [code, ...innerCodes(error)].map(String);
  const what = String(message || codes[0] || error);
  if (codes.some((one) => NOT_SENT.has(one)) || error instanceof errors.ConnectTimeoutError)
    return new EngineError("ENGINE_UNAVAILABLE", `cannot connect to ${url}: ${what}`, {
      cause: error,
    });
  return new EngineError("ENGINE_FAILED", `${url} broke the connection: ${what}`, { cause: error });
}

/** A host with several addresses fails with one error for each. */
function innerCodes(error: unknown): unknown[] {
  return error instanceof AggregateError
    ? error.errors.map((inner: { code?: unknown }) => inner.code)
    : [];
}
