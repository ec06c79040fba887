import type { Clock } from "../../src/actors/model-server/clock.js";

/** A clock that a test moves. */
export class ManualClock implements Clock {
  #nowMs = 1_000_000;
  readonly #timers = new Set<{ dueMs: number; callback: () => void }>();
  #waiting: (() => void)[] = [];

  nowMs(): number {
    return this.#nowMs;
  }

  after(delayMs: number, callback: () => void): () => void {
    const timer = { dueMs: this.#nowMs + delayMs, callback };
    this.#timers.add(timer);
    for (const wake of this.#waiting.splice(0)) wake();
    return () => {
      this.#timers.delete(timer);
      for (const wake of this.#waiting.splice(0)) wake();
    };
  }

  /** Delays, from now, of the timers that are set. */
  get pendingMs(): number[] {
    return [...this.#timers].map((timer) => timer.dueMs - this.#nowMs).sort((a, b) => a - b);
  }

  /** Resolves when a timer with that delay is set. */
  timerOf(delayMs: number): Promise<void> {
    return this.#until(() => this.pendingMs.includes(delayMs));
  }

  /** Resolves when no timer with that delay is set: what it limits has ended. */
  noTimerOf(delayMs: number): Promise<void> {
    return this.#until(() => !this.pendingMs.includes(delayMs));
  }

  async #until(holds: () => boolean): Promise<void> {
    while (!holds()) await new Promise<void>((wake) => this.#waiting.push(wake));
  }

  advance(ms: number): void {
    const endMs = this.#nowMs + ms;
    for (;;) {
      const [next] = [...this.#timers]
        .filter((timer) => timer.dueMs <= endMs)
        .sort((a, b) => a.dueMs - b.dueMs);
      if (next === undefined) break;
      this.#timers.delete(next);
      this.#nowMs = next.dueMs;
      next.callback();
    }
    this.#nowMs = endMs;
  }
}
