/**
 * What a run has promised and kept, one line each: a pass begun, an attempt started, a rollout finished (with its reward
 * and what the servers counted), its row handed off, its evidence accounted for, or the rollout rejected.
 *
 * L1. `finished` is durable before the capture is frozen, so a crash after it re-delivers instead of running again.
 * L2. The first finished attempt of a slot is the one that counts.
 * L3. A slot that is handed off to a trainer, or rejected, is never delivered again.
 */
import type { FinishedRollout, RolloutLedger, RolloutSlot } from "../rollout.js";
import { type Evidence, JournalRecord, type Pass } from "./journal-record.js";
import { JsonlWriter } from "./jsonl-writer.js";
import { PassBook } from "./pass-book.js";

/** A finished rollout with what each server counted; null: the server could not say. */
export interface JournaledRollout {
  readonly finished: FinishedRollout;
  readonly ledgers: readonly (RolloutLedger | null)[];
}

/** A finished rollout whose end the journal does not have. */
export interface PendingRollout extends JournaledRollout {
  /** Its row is durable with a trainer: only this evidence is left to drop. */
  readonly handedOff?: { readonly evidence: Evidence | null };
}

/** The highest attempt that was started for a slot. */
export interface SlotAttempt {
  readonly slot: RolloutSlot;
  readonly attempt: number;
}

/** One text per slot. */
export function slotKey(slot: RolloutSlot): string {
  return `${slot.pass}.${slot.taskIndex}.${slot.rolloutIndex}`;
}

/** What a journal said when it was opened. */
export class JournalHistory {
  /** What was finished and not accepted, by slot. */
  readonly pending = new Map<string, PendingRollout>();
  readonly attempts = new Map<string, SlotAttempt>();
  readonly passes = new PassBook();

  replay(value: unknown): void {
    const record = JournalRecord.parse(value);
    if (record.state === "pass") {
      const { pass, digest, slots } = record;
      this.passes.begin({ pass, digest, slots });
      return;
    }
    if (record.state === "pass_left") {
      this.passes.leave(record.pass);
      return;
    }
    const slot = record.state === "finished" ? record.finished.slot : record.slot;
    const key = slotKey(slot);
    switch (record.state) {
      case "started": {
        const highest = this.attempts.get(key)?.attempt ?? -1;
        if (record.attempt > highest) this.attempts.set(key, { slot, attempt: record.attempt });
        return;
      }
      case "finished":
        // Written by us, and its shape was checked: the looseness keeps fields, not types.
        if (!this.pending.has(key)) this.pending.set(key, value as JournaledRollout); // L2
        return;
      case "handed_off": {
        const pending = this.pending.get(key);
        if (slot.pass === 0 || pending === undefined) return; // Pass 0: the row in the file decides.
        this.pending.set(key, { ...pending, handedOff: { evidence: record.evidence ?? null } });
        this.#settle(slot, key);
        return;
      }
      case "accepted":
        this.pending.delete(key);
        return;
      case "rejected":
        this.pending.delete(key);
        this.#settle(slot, key);
    }
  }

  #settle(slot: RolloutSlot, key: string): void {
    this.passes.settle(slot);
    this.attempts.delete(key);
  }
}

export class Journal {
  readonly history: JournalHistory;
  readonly #writer: JsonlWriter;

  constructor(writer: JsonlWriter, history = new JournalHistory()) {
    this.#writer = writer;
    this.history = history;
  }

  /** @throws FILE_CORRUPT when a line other than a torn last one is no record. */
  static async open(path: string): Promise<Journal> {
    const history = new JournalHistory();
    const writer = await JsonlWriter.open(path, (value) => history.replay(value));
    return new Journal(writer, history);
  }

  get path(): string {
    return this.#writer.path;
  }

  /** Bytes of a torn last line that were cut on open. */
  get cutBytes(): number {
    return this.#writer.cutBytes;
  }

  async pass(pass: Pass): Promise<void> {
    await this.#writer.append({ state: "pass", ...pass });
  }

  async passLeft(pass: number): Promise<void> {
    await this.#writer.append({ state: "pass_left", pass });
  }

  async started(slot: RolloutSlot, attempt: number, rolloutId: string): Promise<void> {
    await this.#writer.append({ state: "started", slot, attempt, rolloutId });
  }

  async finished({ finished, ledgers }: JournaledRollout): Promise<void> {
    await this.#writer.append({ state: "finished", finished, ledgers });
  }

  async handedOff(slot: RolloutSlot, rolloutId: string, evidence?: Evidence): Promise<void> {
    const dropped = evidence === undefined ? {} : { evidence };
    await this.#writer.append({ state: "handed_off", slot, rolloutId, ...dropped });
  }

  async accepted(slot: RolloutSlot, rolloutId: string): Promise<void> {
    await this.#writer.append({ state: "accepted", slot, rolloutId });
  }

  async rejected(slot: RolloutSlot, rolloutId: string, reason: string): Promise<void> {
    await this.#writer.append({ state: "rejected", slot, rolloutId, reason });
  }

  async close(): Promise<void> {
    await this.#writer.close();
  }
}
