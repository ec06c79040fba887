/**
 * Which policy version answers, while a trainer replaces the weights under running calls.
 *
 * P1. From `begin` to `commit` any call may be sampled by the old weights, the new ones, or both: it carries both versions.
 * P2. A version is committed once, after it was begun; it only grows.
 */
export class PolicyVersions {
  #current: number;
  #next: number | null = null;

  constructor(current: number) {
    this.#current = current;
  }

  get current(): number {
    return this.#current;
  }

  /** Begun and not committed. */
  get next(): number | null {
    return this.#next;
  }

  /** @throws RangeError when another update is on its way or the version does not grow. */
  begin(version: number): void {
    if (this.#next !== null)
      throw new RangeError(`policy version ${this.#next} is on its way; ${version} cannot begin`);
    if (!Number.isSafeInteger(version) || version <= this.#current)
      throw new RangeError(`policy version ${version} is not above the current ${this.#current}`);
    this.#next = version;
  }

  /** @throws RangeError when this version was not begun. */
  commit(version: number): void {
    if (this.#next !== version)
      throw new RangeError(`policy version ${version} was not begun; ${this.#next} was`);
    this.#current = version;
    this.#next = null;
  }

  /** The weights did not change. Another version's update goes on. */
  cancel(version: number): void {
    if (this.#next === version) this.#next = null;
  }

  /** Starts a call; the returned function gives the versions that may have sampled it when it ends (P1). */
  track(): () => { start: number; end: number } {
    const start = this.#current;
    return () => ({ start, end: this.#next ?? this.#current });
  }
}
