/**
 * Calls to inference servers: routing, deadline, retry, health.
 *
 * U1. A call is sent again only when nothing was generated: the connection was not made, or the server declined it
 *     (429, 503). A call that may have been running is an error, for the harness to decide about.
 * U2. No call outlives its deadline, retries and waiting included, and none outlives its client.
 * U3. A replica that does not answer is left alone until it answers `/health` again.
 */
import { type Clock, systemClock } from "../../clock.js";
import { EngineError, engineErrorCode } from "../engine-error.js";
import { BodyWithIds } from "./id-lists.js";
import { parseReply } from "./json.js";
import { Replica, type ReplicaReply } from "./replica.js";
import { Replicas } from "./replicas.js";

export interface EngineClientOptions {
  /** Base URLs of replicas of one model. */
  readonly urls: readonly string[];
  readonly apiKey?: string;
  /** Connections to each replica. */
  readonly connections: number;
  readonly connectTimeoutMs: number;
  /** Of one call, retries included. */
  readonly requestTimeoutMs: number;
  /** Times a call is sent, at most. */
  readonly maxAttempts: number;
  /** Between looks at a replica that is down. */
  readonly healthIntervalMs: number;
  /** How long `close` waits for calls in flight. */
  readonly drainTimeoutMs: number;
  readonly clock?: Clock;
}

export interface CallRoute {
  readonly signal: AbortSignal;
  readonly affinity?: string | undefined;
}

type Body = string | BodyWithIds | undefined;

const FIRST_DELAY_MS = 250;
const MAX_DELAY_MS = 8000;

export class EngineClient {
  readonly #options: EngineClientOptions;
  readonly #clock: Clock;
  readonly #replicas: Replicas;
  readonly #closing = new AbortController();
  /** Cancels of health checks to come. */
  readonly #scheduled = new Map<Replica, () => void>();
  #closed: Promise<void> | undefined;

  constructor(options: EngineClientOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    const { connections, connectTimeoutMs, apiKey } = options;
    const headers: Record<string, string> =
      apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` };
    this.#replicas = new Replicas(
      options.urls.map((url) => new Replica(url, { connections, connectTimeoutMs, headers })),
    );
  }

  /**
   * The JSON answer to a POST.
   * @throws EngineError with the code that says whether anything may have been generated.
   */
  async post(path: string, body: object | BodyWithIds, route: CallRoute): Promise<unknown> {
    const sent = body instanceof BodyWithIds ? body : JSON.stringify(body);
    return this.#withDeadline(route.signal, (signal) =>
      this.#send("POST", path, sent, { ...route, signal }),
    );
  }

  /**
   * A POST to every replica at once, never repeated.
   * @returns false when a replica has no such endpoint.
   */
  async postToAll(path: string, body: unknown): Promise<boolean> {
    const text = JSON.stringify(body);
    const { signal } = new AbortController();
    const replies = await this.#withDeadline(signal, (bounded) =>
      Promise.all(
        this.#replicas.all.map((replica) => replica.request("POST", path, text, bounded)),
      ),
    );
    const failed = replies.find(({ status }) => status !== 200 && status !== 404);
    if (failed !== undefined) throw statusError(failed, path);
    return replies.every(({ status }) => status === 200);
  }

  /** The JSON answer to a GET of any replica. */
  async get(path: string, signal: AbortSignal): Promise<unknown> {
    return this.#withDeadline(signal, (bounded) =>
      this.#send("GET", path, undefined, { signal: bounded }),
    );
  }

  /** Waits `drainTimeoutMs` for calls in flight, then breaks them off. Idempotent. */
  close(): Promise<void> {
    this.#closed ??= this.#drain();
    return this.#closed;
  }

  async #drain(): Promise<void> {
    this.#closing.abort();
    for (const cancel of this.#scheduled.values()) cancel();
    const all = this.#replicas.all;
    const drained = Promise.all(all.map((replica) => replica.close()));
    const cancel = this.#clock.after(this.#options.drainTimeoutMs, () => {
      for (const replica of all) void replica.destroy();
    });
    await drained.finally(cancel);
  }

  async #withDeadline<T>(
    signal: AbortSignal,
    run: (bounded: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const { requestTimeoutMs } = this.#options;
    const deadline = new AbortController();
    const message = `the engine did not answer within ${requestTimeoutMs} ms`;
    const cancel = this.#clock.after(requestTimeoutMs, () =>
      deadline.abort(new EngineError("ENGINE_TIMEOUT", message)),
    );
    try {
      return await run(AbortSignal.any([signal, deadline.signal])); // U2
    } finally {
      cancel();
    }
  }

  async #send(
    method: "GET" | "POST",
    path: string,
    body: Body,
    { signal, affinity }: CallRoute,
  ): Promise<unknown> {
    const declined = new Set<Replica>();
    for (let attempt = 1; ; attempt++) {
      const replica = this.#replicas.pick(affinity, declined);
      const outcome = await this.#attempt(replica, { method, path, body }, signal);
      if (!(outcome instanceof Declined)) return outcome;
      declined.add(replica);
      if (attempt >= this.#options.maxAttempts) throw outcome.error;
      // Another replica may be free now; the same one needs time.
      const isOther = declined.size < this.#replicas.all.length;
      await this.#wait(isOther ? 0 : delayMs(attempt, outcome.retryAfterS), signal);
    }
  }

  async #attempt(
    replica: Replica,
    { method, path, body }: { method: "GET" | "POST"; path: string; body: Body },
    signal: AbortSignal,
  ): Promise<unknown> {
    let reply: ReplicaReply;
    try {
      const sent = body instanceof BodyWithIds ? body.bytes : body;
      reply = await replica.request(method, path, sent, signal);
    } catch (error) {
      const code = engineErrorCode(error);
      if (code === "ENGINE_UNAVAILABLE" || code === "ENGINE_FAILED") this.#markDown(replica);
      if (code === "ENGINE_UNAVAILABLE") return new Declined(error as EngineError); // U1
      throw error;
    }
    const where = `${replica.url}${path}`;
    if (reply.status === 200) return jsonOf(reply, where, body);
    const error = statusError(reply, where);
    if (reply.status === 429 || reply.status === 503) return new Declined(error, reply.retryAfterS); // U1
    throw error;
  }

  /** U3. */
  #markDown(replica: Replica): void {
    if (!replica.isHealthy || this.#replicas.all.length === 1) return;
    replica.isHealthy = false;
    this.#probeLater(replica);
  }

  #probeLater(replica: Replica): void {
    if (this.#closing.signal.aborted) return;
    const { healthIntervalMs } = this.#options;
    const cancel = this.#clock.after(healthIntervalMs, () => void this.#probe(replica));
    this.#scheduled.set(replica, cancel);
  }

  async #probe(replica: Replica): Promise<void> {
    const deadline = new AbortController();
    const { healthIntervalMs } = this.#options;
    const cancel = this.#clock.after(healthIntervalMs, () => deadline.abort());
    try {
      const signal = AbortSignal.any([deadline.signal, this.#closing.signal]);
      const { status } = await replica.request("GET", "/health", undefined, signal);
      replica.isHealthy = status === 200;
    } catch {
      replica.isHealthy = false;
    } finally {
      cancel();
    }
    if (!replica.isHealthy) this.#probeLater(replica);
  }

  #wait(ms: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const onAbort = () => {
        cancel();
        reject(signal.reason as Error);
      };
      const cancel = this.#clock.after(ms, () => {
        signal.removeEventListener("abort", onAbort);
        resolve();
      });
      if (signal.aborted) onAbort();
      else signal.addEventListener("abort", onAbort, { once: true });
    });
  }
}

/** A call that the server did not take. */
class Declined {
  readonly error: EngineError;
  readonly retryAfterS: number | undefined;

  constructor(error: EngineError, retryAfterS?: number) {
    this.error = error;
    this.retryAfterS = retryAfterS;
  }
}

/** Doubles, with as much again at random: workers that were declined together must not come back together. */
function delayMs(attempt: number, retryAfterS: number | undefined): number {
  const asked = retryAfterS === undefined ? 0 : retryAfterS * 1000;
  const grown = Math.min(FIRST_DELAY_MS * 2 ** (attempt - 1) * (1 + Math.random()), MAX_DELAY_MS);
  return Math.max(asked, grown);
}

function jsonOf(reply: ReplicaReply, where: string, body: Body): unknown {
  const sent = body instanceof BodyWithIds ? body : undefined;
  if (!reply.contentType.startsWith("text/event-stream"))
    return parseReply(reply.bytes, where, sent);
  throw new EngineError(
    "ENGINE_REPLY_INVALID",
    `${where} answered with a stream although none was asked for`,
  );
}

function statusError({ status, bytes }: ReplicaReply, where: string): EngineError {
  const message = `${where} answered ${status}: ${errorText(bytes.toString("utf8"))}`;
  if (status === 429 || status === 503) return new EngineError("ENGINE_UNAVAILABLE", message);
  return new EngineError(status < 500 ? "ENGINE_REFUSED" : "ENGINE_FAILED", message);
}

/** The message of an error body in the shapes that servers use; else the beginning of the body. */
function errorText(text: string): string {
  try {
    const body = JSON.parse(text) as Record<string, unknown>;
    const error = body["error"];
    const message =
      typeof error === "object" && error !== null
        ? (error as { message?: unknown }).message
        : (error ?? body["message"] ?? body["detail"]);
    if (typeof message === "string") return message;
  } catch {
    // Not JSON: its text is all there is.
  }
  return text.slice(0, 500);
}
