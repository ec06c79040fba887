/**
 * Whether and when a dead actor is started again. Pure: it is told the time.
 *
 * R4a. Never more than `maxRestarts` restarts begin within any window.
 * R4b. The wait doubles from restart to restart, from `minBackoffMs` up to `maxBackoffMs`, and is shortened at
 *      random by up to a half, so that actors that died together do not come back together.
 * R4c. An actor that has not died for a while starts from `minBackoffMs` again.
 */
import type { RestartOptions } from "./options.js";

/** Time without a restart after which the backoff starts anew, as a multiple of the longest wait. */
const CALM = 2;

export class RestartPolicy {
  readonly #options: RestartOptions;
  readonly #random: () => number;
  /** Of restarts that count; only as many as can matter. */
  #times: number[] = [];
  #inARow = 0;
  #lastMs = Number.NEGATIVE_INFINITY;

  /** @param random From [0, 1). */
  constructor(options: RestartOptions, random: () => number = Math.random) {
    this.#options = options;
    this.#random = random;
  }

  /** Notes a death at `nowMs`; returns the wait in ms before the restart, or undefined when there is none. */
  next(nowMs: number): number | undefined {
    const { maxRestarts, windowMs, minBackoffMs, maxBackoffMs } = this.#options;
    if (Number.isFinite(maxRestarts)) {
      this.#times = this.#times.filter((time) => nowMs - time < windowMs);
      if (this.#times.length >= maxRestarts) return undefined;
      this.#times.push(nowMs);
    }
    if (nowMs - this.#lastMs > CALM * maxBackoffMs) this.#inARow = 0;
    this.#lastMs = nowMs;
    const waitMs = Math.min(maxBackoffMs, minBackoffMs * 2 ** this.#inARow);
    this.#inARow += 1;
    return waitMs * (1 - this.#random() / 2);
  }
}
