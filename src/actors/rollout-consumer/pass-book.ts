/**
 * Which slots of which pass are settled: accepted or rejected by a trainer. Memory stays flat over a run of many passes.
 *
 * B1. A pass whose slots are all settled is remembered by its number only.
 * B2. At most `MAX_OPEN_PASSES` unfinished passes can be gone on with; an older one counts as left for good.
 */
import type { RolloutSlot } from "../rollout.js";
import type { Pass } from "./journal-record.js";

/** A loop has one pass open, or a few when it evaluates while it trains. */
const MAX_OPEN_PASSES = 16;

/** A pass that can be gone on with. */
export interface OpenPass extends Pass {
  readonly settled: readonly RolloutSlot[];
}

interface Entry {
  readonly pass: Pass;
  readonly settled: Map<string, RolloutSlot>;
}

export class PassBook {
  readonly #open = new Map<number, Entry>();
  #last = 0;

  /** The highest pass number given out. */
  get last(): number {
    return this.#last;
  }

  begin(pass: Pass): void {
    this.#last = Math.max(this.#last, pass.pass);
    if (pass.slots > 0) this.#open.set(pass.pass, { pass, settled: new Map() });
    const [oldest] = this.#open.keys();
    if (this.#open.size > MAX_OPEN_PASSES && oldest !== undefined) this.#open.delete(oldest); // B2
  }

  /** Nobody will go on with it. */
  leave(pass: number): void {
    this.#open.delete(pass);
  }

  settle(slot: RolloutSlot): void {
    const entry = this.#open.get(slot.pass);
    if (entry === undefined) return;
    entry.settled.set(`${slot.taskIndex}.${slot.rolloutIndex}`, slot);
    if (entry.settled.size >= entry.pass.slots) this.#open.delete(slot.pass); // B1
  }

  /** True also for every slot of a pass that is done or left. */
  isSettled(slot: RolloutSlot): boolean {
    const entry = this.#open.get(slot.pass);
    if (entry === undefined) return slot.pass <= this.#last;
    return entry.settled.has(`${slot.taskIndex}.${slot.rolloutIndex}`);
  }

  open(): OpenPass[] {
    return [...this.#open.values()].map(({ pass, settled }) => ({
      ...pass,
      settled: [...settled.values()],
    }));
  }
}
