/**
 * What happens in a runtime, as a stream of events and as a timeline file.
 *
 * V1. A subscriber gets the events in order. One that falls behind loses the oldest, and `dropped` says how many.
 * V2. Emitting never waits and never throws.
 */
import type { ActorState } from "./actor-life.js";
import type { DeathReport } from "./errors.js";
import { Fifo } from "./fifo.js";
import type { CallSpan } from "./protocol.js";
import type { ActorRecord } from "./registry.js";
import type { TraceFile } from "./trace-file.js";

/** An actor changed its state. */
export interface RuntimeEvent {
  /** Milliseconds since the epoch, with fractions. */
  readonly atMs: number;
  readonly actorId: string;
  readonly name: string | undefined;
  readonly namespace: string;
  readonly state: ActorState;
  readonly restarts: number;
  /** With RESTARTING and DEAD. */
  readonly report?: DeathReport;
  /** Events this subscriber has lost before this one. */
  readonly dropped: number;
}

const KEPT_EVENTS = 10_000;

export class RuntimeEvents {
  readonly #subscribers = new Set<Subscriber>();
  readonly #trace: TraceFile | undefined;
  #closed = false;

  constructor(trace: TraceFile | undefined) {
    this.#trace = trace;
  }

  actor(record: ActorRecord, state: ActorState, report?: DeathReport): void {
    const { id, name, namespace } = record.actor;
    const event = {
      atMs: performance.timeOrigin + performance.now(),
      actorId: id,
      name,
      namespace,
      state,
      restarts: record.life?.restarts ?? 0,
      ...(report === undefined ? {} : { report }),
    };
    for (const subscriber of this.#subscribers) subscriber.push(event);
    this.#trace?.state(event);
  }

  spans(record: ActorRecord, spans: readonly CallSpan[]): void {
    this.#trace?.spans(record.actor, spans);
  }

  /** From now on. The iterator ends when the runtime has shut down. */
  subscribe(): AsyncIterableIterator<RuntimeEvent, undefined> {
    const subscriber = new Subscriber((done) => this.#subscribers.delete(done));
    if (this.#closed) subscriber.end();
    else this.#subscribers.add(subscriber);
    return subscriber;
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const subscriber of this.#subscribers) subscriber.end();
    this.#subscribers.clear();
    await this.#trace?.close();
  }
}

type Result = IteratorResult<RuntimeEvent, undefined>;

class Subscriber implements AsyncIterableIterator<RuntimeEvent, undefined> {
  readonly #events = new Fifo<RuntimeEvent>();
  readonly #waiting = new Fifo<{ resolve(result: Result): void }>();
  readonly #onReturn: (subscriber: Subscriber) => void;
  #dropped = 0;
  #ended = false;

  constructor(onReturn: (subscriber: Subscriber) => void) {
    this.#onReturn = onReturn;
  }

  push(event: Omit<RuntimeEvent, "dropped">): void {
    if (this.#events.size >= KEPT_EVENTS) {
      this.#events.shift();
      this.#dropped += 1;
    }
    const own = { ...event, dropped: this.#dropped };
    const waiting = this.#waiting.shift();
    if (waiting === undefined) this.#events.push(own);
    else waiting.resolve({ value: own, done: false });
  }

  end(): void {
    this.#ended = true;
    for (const { resolve } of this.#waiting.takeAll()) resolve({ value: undefined, done: true });
  }

  next(): Promise<Result> {
    const event = this.#events.shift();
    if (event !== undefined) return Promise.resolve({ value: event, done: false });
    if (this.#ended) return Promise.resolve({ value: undefined, done: true });
    return new Promise((resolve) => this.#waiting.push({ resolve }));
  }

  return(): Promise<Result> {
    this.#onReturn(this);
    this.#events.takeAll();
    this.end();
    return Promise.resolve({ value: undefined, done: true });
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}
