/**
 * Writes one model call's answer to its client: JSON, or a stream that is generated first and then sent whole.
 *
 * X1. `stream: true` is always answered with server-sent events: JSON makes Claude Code send every turn twice.
 * X2. A started stream is never cut for a reason of capture; only a failed engine, or seal, ends it with an error event.
 * X3. Before `keepAliveAfterMs` nothing is written, so an error has its status.
 */
import type { FastifyReply, FastifyRequest } from "fastify";
import type { Clock } from "./clock.js";
import type { DialectCall, StreamWriter } from "./dialects/dialect.js";
import { startKeepAlive } from "./keep-alive.js";
import type { ReplyHead, ServedReply } from "./model-request.js";
import { asRequestError } from "./request-error.js";
import { SSE_HEADERS } from "./sse.js";

/** Runs the call; `onHead` tells what the stream's first event needs. */
export type RunCall = (onHead: (head: ReplyHead) => void) => Promise<ServedReply>;

export interface StreamTiming {
  readonly clock: Clock;
  readonly keepAliveAfterMs: number;
}

/** Aborted when the connection closes before the answer is complete. */
export function clientGoneSignal(request: FastifyRequest, reply: FastifyReply): AbortSignal {
  const controller = new AbortController();
  const onClose = () => {
    if (!reply.raw.writableFinished) controller.abort();
  };
  if (request.raw.socket.destroyed) controller.abort();
  reply.raw.once("close", onClose);
  return controller.signal;
}

export async function sendJson(
  call: DialectCall,
  reply: FastifyReply,
  run: RunCall,
): Promise<void> {
  const served = await run(() => undefined);
  await reply.send(call.json(served));
}

export async function sendStream(
  call: DialectCall,
  reply: FastifyReply,
  timing: StreamTiming,
  run: RunCall,
): Promise<void> {
  const stream = new ReplyStream(call.openStream(), reply);
  const keepAlive = startKeepAlive(
    timing.clock,
    timing.keepAliveAfterMs,
    () => stream.start(),
    () => stream.ping(),
  );
  try {
    const served = await run((head) => stream.setHead(head));
    keepAlive.stop();
    stream.finish(served);
  } catch (error) {
    keepAlive.stop();
    if (!stream.isStarted) throw error; // X3
    stream.fail(error);
  }
}

class ReplyStream {
  readonly #writer: StreamWriter;
  readonly #reply: FastifyReply;
  #head: ReplyHead | undefined;
  #started = false;
  #headSent = false;

  constructor(writer: StreamWriter, reply: FastifyReply) {
    this.#writer = writer;
    this.#reply = reply;
  }

  get isStarted(): boolean {
    return this.#started;
  }

  setHead(head: ReplyHead): void {
    this.#head = head;
    if (this.#started) this.#write(this.#headOnce());
  }

  start(): void {
    this.#started = true;
    this.#reply.hijack();
    // A response without a listener turns a write to a closed connection into the end of the worker.
    this.#reply.raw.on("error", () => undefined);
    this.#reply.raw.writeHead(200, SSE_HEADERS);
    this.#write(this.#headOnce());
  }

  ping(): void {
    this.#write(this.#writer.keepAlive());
  }

  finish(served: ServedReply): void {
    this.#head = served;
    if (!this.#started) this.start();
    this.#reply.raw.end(this.#headOnce() + this.#writer.body(served));
  }

  fail(error: unknown): void {
    this.#reply.raw.end(this.#writer.error(asRequestError(error)));
  }

  #headOnce(): string {
    if (this.#head === undefined || this.#headSent) return "";
    this.#headSent = true;
    return this.#writer.head(this.#head);
  }

  #write(text: string): void {
    if (text !== "") this.#reply.raw.write(text);
  }
}
