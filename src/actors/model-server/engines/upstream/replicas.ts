/**
 * Which of several servers gets a call.
 *
 * R1. Calls with one affinity key go to one replica while it is healthy: its prefix cache holds their history.
 * R2. A key that is seen first, or whose replica is down, goes to the healthy replica with the fewest calls in flight.
 * R3. When none is healthy the least busy one is tried: a wrong verdict must not stop everything.
 */
import type { Replica } from "./replica.js";

/** Keys that are remembered; the oldest is forgotten first. */
const MAX_KEYS = 10_000;

export class Replicas {
  readonly all: readonly Replica[];
  readonly #home = new Map<string, Replica>();

  /** Contract: at least one. */
  constructor(replicas: readonly Replica[]) {
    this.all = replicas;
  }

  /** @param avoid replicas that have already declined this call; they are taken only when no other is left. */
  pick(affinity: string | undefined, avoid: ReadonlySet<Replica> = new Set()): Replica {
    const usable = (replica: Replica) => replica.isHealthy && !avoid.has(replica);
    const home = affinity === undefined ? undefined : this.#home.get(affinity);
    if (home !== undefined && usable(home)) return home; // R1
    const candidates = this.all.filter(usable);
    const untried = this.all.filter((replica) => !avoid.has(replica));
    const pool = [candidates, untried, this.all].find((some) => some.length > 0) ?? []; // R3
    const chosen = pool.reduce((a, b) => (b.inFlight < a.inFlight ? b : a)); // R2
    if (affinity !== undefined) this.#remember(affinity, chosen);
    return chosen;
  }

  #remember(affinity: string, replica: Replica): void {
    this.#home.delete(affinity);
    this.#home.set(affinity, replica);
    const [oldest] = this.#home.keys();
    if (this.#home.size > MAX_KEYS && oldest !== undefined) this.#home.delete(oldest);
  }
}
