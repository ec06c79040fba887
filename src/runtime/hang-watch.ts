/**
 * Finds an actor whose event loop does not turn. Such a thread emits no event; it shows only in a ping that stays
 * unanswered while its event loop is busy all the time.
 *
 * R6a. Death is called when the thread has been silent and busy for `timeoutMs`, counted by this watch's own ticks.
 * R6b. A tick that comes late means that this thread's own loop was blocked. Only one interval of it counts, and
 *      the answers that wait in line are heard before the next tick: a busy main thread cannot kill an actor.
 */
const BUSY = 0.99;

export class HangWatch {
  readonly #timeoutMs: number;
  readonly #intervalMs: number;
  #lastMs: number;
  #silentMs = 0;
  #answered = false;

  constructor(timeoutMs: number, intervalMs: number, nowMs: number) {
    this.#timeoutMs = timeoutMs;
    this.#intervalMs = intervalMs;
    this.#lastMs = nowMs;
  }

  /** The thread answered a ping. */
  onPong(): void {
    this.#answered = true;
  }

  /**
   * One tick.
   *
   * @param utilization Event-loop utilization of the thread since the last tick, 0 to 1.
   * @returns true when the thread hangs.
   */
  isHung(nowMs: number, utilization: number): boolean {
    const elapsedMs = nowMs - this.#lastMs;
    this.#lastMs = nowMs;
    if (this.#answered || utilization < BUSY) this.#silentMs = 0;
    else this.#silentMs += Math.min(elapsedMs, this.#intervalMs);
    this.#answered = false;
    return this.#silentMs >= this.#timeoutMs;
  }
}

/** What a watch needs of the thread. */
export interface WatchedThread {
  ping(): void;
  /** Event-loop utilization since the last call, 0 to 1. */
  utilization(): number;
  onHang(): void;
}

const MAX_INTERVAL_MS = 500;

/** Watches until `stop` is called; the owner forwards each pong. */
export function watchForHang(
  thread: WatchedThread,
  timeoutMs: number,
): { onPong(): void; stop(): void } {
  const intervalMs = Math.min(MAX_INTERVAL_MS, timeoutMs / 4);
  const watch = new HangWatch(timeoutMs, intervalMs, performance.now());
  const timer = setInterval(() => {
    if (watch.isHung(performance.now(), thread.utilization())) {
      clearInterval(timer);
      thread.onHang();
    } else thread.ping();
  }, intervalMs);
  timer.unref();
  return { onPong: () => watch.onPong(), stop: () => clearInterval(timer) };
}
