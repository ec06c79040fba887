/**
 * Leaves writers room beside a consumer that freezes and drops as fast as it can.
 *
 * P1. Between two snapshots of this connection the event loop turns, so that waiting writes are committed.
 * P2. While other connections write, this one pauses before it asks for the write lock: SQLite's busy handler sleeps,
 *     and whoever sleeps loses against one that asks at once.
 */
import type { Connection } from "./schema.js";

/** A writer that waits for the lock looks at it several times in this. */
const PAUSE_MS = 10;

export class ConsumerPace {
  readonly #connection: Connection;
  readonly #pause: (ms: number) => Promise<void>;
  #lastRead: Promise<void> = Promise.resolve();
  #seen: unknown;

  constructor(connection: Connection, pause: (ms: number) => Promise<void> = timer) {
    this.#connection = connection;
    this.#pause = pause;
    this.#seen = this.#othersVersion();
  }

  /** P2 */
  async beforeLock(): Promise<void> {
    const version = this.#othersVersion();
    if (version === this.#seen) return;
    this.#seen = version;
    await this.#pause(PAUSE_MS);
  }

  /** P1. Resolves for one caller in each turn of the event loop. */
  beforeRead(): Promise<void> {
    this.#lastRead = this.#lastRead.then(() => new Promise((resolve) => setImmediate(resolve)));
    return this.#lastRead;
  }

  /** Moves when another connection commits, and only then. */
  #othersVersion(): unknown {
    return this.#connection.pragma("data_version", { simple: true });
  }
}

function timer(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
