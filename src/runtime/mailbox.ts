/**
 * A FIFO queue in front of a limit that one thread keeps alone: it stands before the task pool, whose own queue is
 * not FIFO.
 *
 * It knows no actor and no thread. A failing `work` frees its place like one that succeeds.
 *
 * M1. Work starts in the order it was given; `run` starts it at once, synchronously, when a place is free.
 * M2. Never more than `limit` run at a time.
 * M3. After `close` nothing starts: what waits is rejected, in order; what runs is left alone.
 */
import { Fifo } from "./fifo.js";

interface Waiting {
  readonly start: () => void;
  readonly reject: (reason: unknown) => void;
}

export class Mailbox {
  readonly limit: number;
  #running = 0;
  readonly #waiting = new Fifo<Waiting>();
  #closed: (() => unknown) | undefined;
  #idle: (() => void)[] = [];

  constructor(limit: number) {
    this.limit = limit;
  }

  get running(): number {
    return this.#running;
  }

  get queued(): number {
    return this.#waiting.size;
  }

  /** True when work given now would wait. */
  get full(): boolean {
    return this.#running >= this.limit;
  }

  /** Runs `work` in its turn and settles as it does. */
  run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#closed !== undefined) return Promise.reject(this.#closed());
    if (!this.full) return this.#start(work);
    return new Promise<T>((resolve, reject) => {
      this.#waiting.push({ start: () => resolve(this.#start(work)), reject });
    });
  }

  /** Resolves when nothing runs and nothing waits. */
  whenIdle(): Promise<void> {
    if (this.#running === 0 && this.queued === 0) return Promise.resolve();
    return new Promise((resolve) => this.#idle.push(resolve));
  }

  /** Rejects all that waits, and all that comes, with `makeReason()` (M3). */
  close(makeReason: () => unknown): void {
    if (this.#closed !== undefined) return;
    this.#closed = makeReason;
    for (const entry of this.#waiting.takeAll()) entry.reject(makeReason());
    this.#tellIdle();
  }

  async #start<T>(work: () => Promise<T>): Promise<T> {
    this.#running += 1;
    try {
      return await work();
    } finally {
      this.#running -= 1;
      this.#startNext();
    }
  }

  #startNext(): void {
    if (!this.full) this.#waiting.shift()?.start();
    this.#tellIdle();
  }

  #tellIdle(): void {
    if (this.#running > 0 || this.queued > 0) return;
    const idle = this.#idle;
    this.#idle = [];
    for (const resolve of idle) resolve();
  }
}
