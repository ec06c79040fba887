/** How many rollouts of each agent may run at a time, over everything that a run does at once. */
export class AgentGates {
  readonly #free: Map<string, number>;
  readonly #listeners = new Set<() => void>();

  /** Agent name → places. */
  constructor(places: Readonly<Record<string, number>>) {
    this.#free = new Map(Object.entries(places));
  }

  /** Takes a place; false when there is none. */
  tryTake(agent: string): boolean {
    const free = this.#free.get(agent) ?? 0;
    if (free === 0) return false;
    this.#free.set(agent, free - 1);
    return true;
  }

  give(agent: string): void {
    this.#free.set(agent, (this.#free.get(agent) ?? 0) + 1);
    for (const listener of this.#listeners) listener();
  }

  /** Calls the listener whenever a place is given back; the returned function ends that. */
  onFree(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
}
