/**
 * Writes one model call's answer to its client: JSON, or a stream that is generated first and then sent whole.
 *
 * X1. `stream: true` is always answered with server-sent events: JSON makes Claude Code send every turn twice.
 * X2. A started stream is never cut for a reason of capture; only a failed engine, or seal, ends it with an error event.
 * X3. Before `keepAliveAfterMs` nothing is written, so an error has its status.
 * X4. A client that stopped reading is gone: its connection is closed, which cancels a call that still runs and frees
 *     what was written for it.
 */
import type { FastifyReply, FastifyRequest } from "fastify";
import type { Clock } from "./clock.js";
import type { DialectCall, StreamWriter } from "./dialects/dialect.js";
import { startKeepAlive } from "./keep-alive.js";
import type { ReplyHead, ServedReply } from "./model-request.js";
import { asRequestError } from "./request-error.js";
import { SSE_HEADERS } from "./sse.js";

/** How long a client may take to read a finished stream, ms. */
const READ_TIMEOUT_MS = 60_000;

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
  const stream = new ReplyStream(call.openStream(), reply, timing.clock);
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
  readonly #clock: Clock;
  #head: ReplyHead | undefined;
  #started = false;
  #headSent = false;

  constructor(writer: StreamWriter, reply: FastifyReply, clock: Clock) {
    this.#writer = writer;
    this.#reply = reply;
    this.#clock = clock;
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
    // What was written at the last ping, or before, is still here.
    if (this.#reply.raw.writableNeedDrain)
      this.#reply.raw.destroy(); // X4
    else this.#write(this.#writer.keepAlive());
  }

  finish(served: ServedReply): void {
    this.#head = served;
    if (!this.#started) this.start();
    this.#end(this.#headOnce() + this.#writer.body(served));
  }

  fail(error: unknown): void {
    this.#end(this.#writer.error(asRequestError(error)));
  }

  #end(text: string): void {
    const { raw } = this.#reply;
    const cancel = this.#clock.after(READ_TIMEOUT_MS, () => raw.destroy()); // X4
    raw.once("close", cancel);
    raw.end(text);
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
