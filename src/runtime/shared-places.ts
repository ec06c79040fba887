/**
 * Limits that several threads keep together, as counters in shared memory. A limit has so many places; whoever takes
 * one also notes it in a cell of its own, so that the places of a thread that died can be found and given back.
 *
 * H1. Never more places are taken than the limit has.
 * H2. Each taken place is in exactly one `held` cell until the actor's own thread takes it over.
 */

/** Some limit's places as one taker sees them. */
export class Places {
  readonly #taken: Int32Array;
  readonly #held: Int32Array;
  readonly #takenAt: number;
  readonly #heldAt: number;
  readonly #limit: number;

  constructor(limit: number, taken: Cell, held: Cell) {
    this.#limit = limit;
    this.#taken = taken.cells;
    this.#takenAt = taken.at;
    this.#held = held.cells;
    this.#heldAt = held.at;
  }

  tryTake(): boolean {
    const taken = this.#taken;
    const at = this.#takenAt;
    for (let now = Atomics.load(taken, at); now < this.#limit; ) {
      const seen = Atomics.compareExchange(taken, at, now, now + 1);
      if (seen === now) {
        Atomics.add(this.#held, this.#heldAt, 1);
        return true;
      }
      now = seen;
    }
    return false;
  }

  giveBack(): void {
    Atomics.sub(this.#held, this.#heldAt, 1);
    Atomics.sub(this.#taken, this.#takenAt, 1);
  }

  /** Takes over a place that somebody else held. */
  inherit(): void {
    Atomics.add(this.#held, this.#heldAt, 1);
  }

  /** Lets go of a held place that somebody else takes over. */
  handOver(): void {
    Atomics.sub(this.#held, this.#heldAt, 1);
  }

  /** Gives back all that is held. For a taker whose thread has ended. */
  giveBackAll(): void {
    const held = Atomics.exchange(this.#held, this.#heldAt, 0);
    Atomics.sub(this.#taken, this.#takenAt, held);
  }
}

/** One counter in shared memory. */
export interface Cell {
  readonly cells: Int32Array;
  readonly at: number;
}

/** `count` counters at zero, to be shared. */
export function sharedCells(count: number): Int32Array {
  return new Int32Array(new SharedArrayBuffer(count * Int32Array.BYTES_PER_ELEMENT));
}
