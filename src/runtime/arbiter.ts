/**
 * The actor's side of its shared limits: hands places that come free to the callers that wait, in the order they
 * asked, so that no caller starves another.
 *
 * B1. A place that comes free goes to the caller that has waited longest.
 * B2. A caller whose thread is gone waits no longer.
 */
import { Fifo } from "./fifo.js";
import { PENDING, PENDING_CELLS } from "./protocol.js";
import type { Places } from "./shared-places.js";

/** A caller that may wait for a place of a resource. */
export interface Claimant {
  places(resource: number): Places;
  grant(resource: number): void;
}

interface Wish {
  readonly claimant: Claimant;
}

export class Arbiter {
  readonly #wishes: readonly Fifo<Wish>[];
  readonly #gone = new WeakSet<Claimant>();

  readonly #pending: Int32Array;

  /** @param pending See `PENDING_CELLS`: callers that give back such a place look there whether anybody waits. */
  constructor(resources: number, pending: Int32Array) {
    this.#wishes = Array.from({ length: resources }, () => new Fifo<Wish>());
    this.#pending = pending;
  }

  want(claimant: Claimant, resource: number): void {
    this.#wishes[resource]?.push({ claimant });
    // Before the look at what is free: a place given back in between is told to us then.
    this.#publish();
    this.serve(resource);
  }

  /** Grants what is free. */
  serve(resource: number): void {
    for (let next = this.#first(resource); next !== undefined; next = this.#first(resource)) {
      if (!next.places(resource).tryTake()) break;
      this.#wishes[resource]?.shift();
      next.grant(resource);
    }
    this.#publish();
  }

  /** Hands a place that the actor holds to who waits for it. @returns false when nobody does. */
  pass(resource: number): boolean {
    const next = this.#first(resource);
    if (next === undefined) return false;
    this.#wishes[resource]?.shift();
    next.places(resource).inherit();
    next.grant(resource);
    return true;
  }

  forget(claimant: Claimant): void {
    this.#gone.add(claimant);
  }

  #publish(): void {
    Atomics.store(this.#pending, PENDING_CELLS.waiting, this.#wishes[PENDING]?.size ?? 0);
  }

  #first(resource: number): Claimant | undefined {
    for (;;) {
      const claimant = this.#wishes[resource]?.peek()?.claimant;
      if (claimant === undefined || !this.#gone.has(claimant)) return claimant;
      this.#wishes[resource]?.shift();
    }
  }
}
