/**
 * The hand-off to a trainer in the caller's thread: rows that are held until it says that they are durable with it.
 *
 * H1. Evidence is dropped only after `handed_off` is durable, and only what that line names.
 * H2. Between delivery and accept a death changes nothing: the rollout is delivered again.
 */
import type { FinalizedCapture } from "../../capture/index.js";
import type { RolloutSlot } from "../rollout.js";
import { RolloutConsumerError } from "./errors.js";
import type { Journal } from "./journal.js";
import type { Evidence } from "./journal-record.js";
import type { PassBook } from "./pass-book.js";

interface HeldRollout {
  readonly slot: RolloutSlot;
  readonly rolloutId: string;
  /** Null: nothing of it may be dropped. */
  readonly evidence: Evidence | null;
}

interface HandOffParts {
  readonly journal: Journal;
  readonly passes: PassBook;
  drop(rolloutId: string, evidence: Evidence): Promise<void>;
  noted(note: Promise<void>): Promise<void>;
}

export class TrainerHandOff {
  readonly #parts: HandOffParts;
  readonly #held = new Map<string, HeldRollout>();

  constructor(parts: HandOffParts) {
    this.#parts = parts;
  }

  hold(slot: RolloutSlot, rolloutId: string, built: FinalizedCapture | null): void {
    this.#held.set(rolloutId, { slot, rolloutId, evidence: evidenceOf(built) });
  }

  /** The id of the rollout that waits for its trainer in this slot. */
  holderOf({ pass, taskIndex, rolloutIndex }: RolloutSlot): string | undefined {
    for (const { slot, rolloutId } of this.#held.values())
      if (slot.rolloutIndex === rolloutIndex && slot.taskIndex === taskIndex && slot.pass === pass)
        return rolloutId;
    return undefined;
  }

  /** @throws NOT_HELD when one is not waiting; APPEND_FAILED when that is not durable: call it again. */
  async accept(rolloutIds: readonly string[]): Promise<void> {
    const { journal, drop, noted } = this.#parts;
    const rollouts = this.#take(rolloutIds);
    await Promise.all(
      rollouts.map(({ slot, rolloutId, evidence }) =>
        journal.handedOff(slot, rolloutId, evidence ?? undefined),
      ),
    );
    for (const rollout of rollouts) this.#settled(rollout);
    await Promise.all(
      rollouts.map(async ({ slot, rolloutId, evidence }) => {
        if (evidence !== null) await drop(rolloutId, evidence); // H1
        void noted(journal.accepted(slot, rolloutId));
      }),
    );
  }

  /** Their evidence stays. @throws as `accept`. */
  async reject(rolloutIds: readonly string[], reason: string): Promise<void> {
    const rollouts = this.#take(rolloutIds);
    const { journal } = this.#parts;
    await Promise.all(
      rollouts.map(({ slot, rolloutId }) => journal.rejected(slot, rolloutId, reason)),
    );
    for (const rollout of rollouts) this.#settled(rollout);
  }

  #take(rolloutIds: readonly string[]): HeldRollout[] {
    return rolloutIds.map((id) => {
      const held = this.#held.get(id);
      if (held === undefined)
        throw new RolloutConsumerError("NOT_HELD", `rollout ${id} does not wait for its trainer`);
      return held;
    });
  }

  #settled({ slot, rolloutId }: HeldRollout): void {
    this.#held.delete(rolloutId);
    this.#parts.passes.settle(slot);
  }
}

/** R4 of the consumer: an unmasked build only. */
function evidenceOf(built: FinalizedCapture | null): Evidence | null {
  if (built === null || built.masked || built.snapshot === null || built.error !== undefined)
    return null;
  const { snapshotId, version } = built.snapshot;
  return { snapshotId, version };
}
