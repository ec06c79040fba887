/**
 * One thread's lane to one actor. All handles of the actor in this thread share it, so their calls keep one order.
 *
 * K1. Calls of one thread to one actor reach it in the order they were made (R3). At most `maxConcurrency` are sent
 *     and unanswered; the rest wait here, where the actor's death cannot lose them.
 * K2. A call that waits keeps the arguments it was made with, whatever the caller does to them later.
 * K3. After the actor's death every pending and every later call rejects with `ActorDiedError` and the one report
 *     (R1). When the lane closes before the report is here, it is waited for, at most `reportWaitMs`.
 */
import type { MessagePort } from "node:worker_threads";
import { wrap } from "comlink";
import { CallerEndpoint } from "./endpoint.js";
import { decodeThrown } from "./error-wire.js";
import { ActorDiedError, type DeathReport, SerializationError } from "./errors.js";
import { Mailbox } from "./mailbox.js";
import type { ActorDescriptor, Invocation, InvocationTarget, Outcome } from "./protocol.js";
import { type PackedValue, UncloneableError } from "./wire-value.js";

/** Packs and unpacks values that may hold handles and errors. */
export interface ValueCodec {
  /** @throws UncloneableError naming the path. */
  pack(value: unknown): PackedValue;
  unpack(packed: PackedValue): unknown;
}

const REPORT_WAIT_MS = 2000;

export class Connection {
  readonly actor: ActorDescriptor;
  /** Resolves with the report when the actor is dead; never rejects. */
  readonly dead: Promise<DeathReport>;
  readonly #codec: ValueCodec;
  readonly #mailbox: Mailbox;
  readonly #endpoint: CallerEndpoint;
  /** Kept for as long as the lane lives: Comlink closes the lane of a collected proxy. */
  readonly #remote: InvocationTarget["invoke"];
  readonly #reportWaitMs: number;
  #resolveDead: (report: DeathReport) => void = () => {};
  #report: DeathReport | undefined;
  #lost: NodeJS.Timeout | undefined;
  #stopping = false;

  constructor(
    actor: ActorDescriptor,
    port: MessagePort,
    codec: ValueCodec,
    reportWaitMs = REPORT_WAIT_MS,
  ) {
    this.actor = actor;
    this.#codec = codec;
    this.#reportWaitMs = reportWaitMs;
    this.#mailbox = new Mailbox(actor.maxConcurrency);
    this.#endpoint = new CallerEndpoint(port, () => this.#onLost());
    this.#remote = wrap<InvocationTarget>(this.#endpoint).invoke as InvocationTarget["invoke"];
    this.dead = new Promise((resolve) => {
      this.#resolveDead = resolve;
    });
  }

  async call(method: string, args: unknown[]): Promise<unknown> {
    if (this.#report !== undefined) throw this.#diedError(this.#report, false, method);
    if (this.#stopping) throw this.#diedError(await this.dead, false, method);
    const invocation = this.#prepare(method, args);
    const outcome = await this.#mailbox.run<Outcome>(() => this.#remote(invocation));
    switch (outcome.kind) {
      case "value":
        return this.#codec.unpack(outcome.value);
      case "error":
        throw decodeThrown(outcome.error);
      case "not-cloneable":
        throw new SerializationError(this.actor, method, outcome.what);
      case "died":
        throw this.#diedError(await this.dead, true, method);
    }
  }

  /** True when handles on this connection may be packed by `codec`. */
  belongsTo(codec: ValueCodec): boolean {
    return this.#codec === codec;
  }

  /** Takes no new calls from now on and resolves when those made before have ended, or at the deadline. */
  async drain(deadlineMs: number): Promise<void> {
    this.#stopping = true;
    let timer: NodeJS.Timeout | undefined;
    const deadline = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, deadlineMs);
    });
    await Promise.race([this.#mailbox.whenIdle(), deadline]);
    clearTimeout(timer);
  }

  /** The actor is dead, and this is why. The first report stays (K3). */
  died(report: DeathReport): void {
    if (this.#report !== undefined) return;
    this.#report = report;
    clearTimeout(this.#lost);
    this.#resolveDead(report);
    // Before the endpoint answers: an answer frees a place, and nothing more may be sent.
    this.#mailbox.close(() => this.#diedError(report, false));
    this.#endpoint.fail();
  }

  #prepare(method: string, args: unknown[]): Invocation {
    try {
      const packed = this.#codec.pack(args);
      // K2: what is sent now is cloned by postMessage; what waits is cloned now.
      return { method, args: this.#mailbox.full ? structuredClone(packed) : packed };
    } catch (error) {
      if (!(error instanceof UncloneableError) && !(error instanceof DOMException)) throw error;
      throw new SerializationError(this.actor, method, `argument ${error.message}`, {
        cause: error,
      });
    }
  }

  #onLost(): void {
    if (this.#report !== undefined || this.#lost !== undefined) return;
    this.#lost = setTimeout(() => {
      const error = new Error(
        "The connection to the actor closed and no report of its death came.",
      );
      this.died({ cause: "exit", exitCode: null, error, lastLogs: [], uptimeMs: 0 });
    }, this.#reportWaitMs);
  }

  #diedError(report: DeathReport, maybeExecuted: boolean, method?: string): ActorDiedError {
    return new ActorDiedError(this.actor, report, maybeExecuted, method);
  }
}
