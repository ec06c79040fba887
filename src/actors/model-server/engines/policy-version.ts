/**
 * Which weights an engine has, as far as the training loop told.
 *
 * W1. A call that overlaps an update is stamped [old, new]: some of its tokens may come from either.
 */
export class PolicyVersion {
  #committed: number;
  #pending: number | undefined;

  constructor(version = 0) {
    this.#committed = version;
  }

  /** Contract: called before the first byte of the new weights can reach the engine. */
  beginUpdate(version: number): void {
    this.#pending = version;
  }

  /** Contract: called when the engine has the new weights and nothing of the old ones is left. */
  commitUpdate(version: number): void {
    this.#committed = version;
    this.#pending = undefined;
  }

  /** Oldest version that a call which is sent now can be sampled from. */
  get oldest(): number {
    return this.#committed;
  }

  /** Newest version that a call which is answered now can have been sampled from. */
  get newest(): number {
    return this.#pending ?? this.#committed;
  }
}
