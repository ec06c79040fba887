/**
 * The caller's side of a shared limit: what has no place waits here, in order, and the actor grants places as they
 * come free. Waiting in the caller's thread is what keeps a crash of the actor from losing a call.
 *
 * G1. Items get their places in the order they entered; nothing passes an item that waits.
 * G2. While closed (no lane to the actor) everything waits, and nothing is lost.
 * G3. A granted place that nobody waits for any more is given back.
 */
import { Fifo } from "./fifo.js";
import type { Places } from "./shared-places.js";

/** What a gate tells the actor's thread. */
export interface GateLane {
  /** One more item waits for a place. */
  want(): void;
  /** A place came free that the actor did not free itself. */
  freed(): void;
}

export class Gate<T extends object> {
  readonly #queue = new Fifo<T>();
  readonly #lasting: Places | undefined;
  #places: Places | undefined;
  #lane: GateLane | undefined;

  /** @param lasting Places that can be taken also while there is no lane. */
  constructor(lasting?: Places) {
    this.#lasting = lasting;
    this.#places = lasting;
  }

  get queued(): number {
    return this.#queue.size;
  }

  /** Takes a place if nothing waits for one and one is free. */
  tryPass(): boolean {
    return this.#queue.size === 0 && this.#places?.tryTake() === true;
  }

  /** True when `item` has its place now; else it waits until `open` or `granted` returns it. */
  enter(item: T): boolean {
    if (this.tryPass()) return true;
    this.#queue.push(item);
    this.#lane?.want();
    return false;
  }

  /** Takes an item that waits out of the queue. */
  leave(item: T): void {
    this.#queue.remove(item);
  }

  /** The actor granted a place: returns the item that has it. */
  granted(): T | undefined {
    const item = this.#queue.shift();
    if (item === undefined) this.giveBack();
    return item;
  }

  giveBack(): void {
    this.#places?.giveBack();
    this.#lane?.freed();
  }

  /** Lets items through a new lane; returns those that have their place at once. */
  open(lane: GateLane, places = this.#lasting): T[] {
    this.#places = places;
    this.#lane = lane;
    const through: T[] = [];
    while (this.#queue.size > 0 && places?.tryTake() === true) {
      const item = this.#queue.shift();
      if (item !== undefined) through.push(item);
    }
    for (let waiting = this.#queue.size; waiting > 0; waiting--) lane.want();
    return through;
  }

  /** The lane is gone. `again` waits before all others. */
  close(again: readonly T[] = []): void {
    this.#places = this.#lasting;
    this.#lane = undefined;
    if (again.length > 0) this.#queue.pushFront(again);
  }

  /** Empties the queue. */
  takeAll(): T[] {
    return this.#queue.takeAll();
  }
}
