/**
 * What a run has promised and kept, one line each: an attempt started, a rollout finished (with its reward and what
 * the servers counted), its row handed off, its evidence accounted for.
 *
 * L1. `finished` is durable before the capture is frozen, so a crash after it re-delivers instead of running again.
 * L2. The first finished attempt of a slot is the one that counts.
 */
import { z } from "zod";
import { type FinishedRollout, type RolloutLedger, type RolloutSlot, Task } from "../rollout.js";
import { JsonlWriter } from "./jsonl-writer.js";

const Slot = z.strictObject({
  pass: z.number().int().nonnegative(),
  taskIndex: z.number().int().nonnegative(),
  rolloutIndex: z.number().int().nonnegative(),
});

const Finished = z.looseObject({
  slot: Slot,
  attempt: z.number().int().nonnegative(),
  rolloutId: z.string(),
  captured: z.boolean(),
  task: Task,
  model: z.string(),
  outcome: z.looseObject({ reward: z.number().nullable(), finalText: z.string().nullable() }),
});

const Ledger = z.looseObject({
  started: z.number(),
  recordedCallIds: z.array(z.string()),
  undeliveredCallIds: z.array(z.string()).optional(),
  failed: z.number(),
  aborted: z.number(),
  captureLost: z.number(),
  workerIndex: z.number(),
  workerGeneration: z.number(),
});

const JournalRecord = z.discriminatedUnion("state", [
  z.strictObject({
    state: z.literal("started"),
    slot: Slot,
    attempt: z.number().int().nonnegative(),
    rolloutId: z.string(),
  }),
  z.strictObject({
    state: z.literal("finished"),
    finished: Finished,
    ledgers: z.array(Ledger.nullable()),
  }),
  z.strictObject({ state: z.literal("handed_off"), slot: Slot, rolloutId: z.string() }),
  z.strictObject({ state: z.literal("accepted"), slot: Slot, rolloutId: z.string() }),
]);

/** A finished rollout with what each server counted; null: the server could not say. */
export interface JournaledRollout {
  readonly finished: FinishedRollout;
  readonly ledgers: readonly (RolloutLedger | null)[];
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

export class Journal {
  /** What was finished and not accepted when the journal was opened, by slot. */
  readonly pending: ReadonlyMap<string, JournaledRollout>;
  readonly attempts: readonly SlotAttempt[];
  readonly #writer: JsonlWriter;

  constructor(
    writer: JsonlWriter,
    pending: ReadonlyMap<string, JournaledRollout> = new Map(),
    attempts: readonly SlotAttempt[] = [],
  ) {
    this.#writer = writer;
    this.pending = pending;
    this.attempts = attempts;
  }

  /** @throws FILE_CORRUPT when a line other than a torn last one is no record. */
  static async open(path: string): Promise<Journal> {
    const pending = new Map<string, JournaledRollout>();
    const attempts = new Map<string, SlotAttempt>();
    const writer = await JsonlWriter.open(path, (value) => replay(value, pending, attempts));
    return new Journal(writer, pending, [...attempts.values()]);
  }

  get path(): string {
    return this.#writer.path;
  }

  /** Bytes of a torn last line that were cut on open. */
  get cutBytes(): number {
    return this.#writer.cutBytes;
  }

  async started(slot: RolloutSlot, attempt: number, rolloutId: string): Promise<void> {
    await this.#writer.append({ state: "started", slot, attempt, rolloutId });
  }

  async finished({ finished, ledgers }: JournaledRollout): Promise<void> {
    await this.#writer.append({ state: "finished", finished, ledgers });
  }

  async handedOff(slot: RolloutSlot, rolloutId: string): Promise<void> {
    await this.#writer.append({ state: "handed_off", slot, rolloutId });
  }

  async accepted(slot: RolloutSlot, rolloutId: string): Promise<void> {
    await this.#writer.append({ state: "accepted", slot, rolloutId });
  }

  async close(): Promise<void> {
    await this.#writer.close();
  }
}

function replay(
  value: unknown,
  pending: Map<string, JournaledRollout>,
  attempts: Map<string, SlotAttempt>,
): void {
  const record = JournalRecord.parse(value);
  const slot = record.state === "finished" ? record.finished.slot : record.slot;
  const key = slotKey(slot);
  switch (record.state) {
    case "started": {
      const highest = attempts.get(key)?.attempt ?? -1;
      if (record.attempt > highest) attempts.set(key, { slot, attempt: record.attempt });
      return;
    }
    case "finished":
      // Written by us, and its shape was checked: the looseness keeps fields, not types.
      if (!pending.has(key)) pending.set(key, value as JournaledRollout); // L2
      return;
    case "handed_off":
      return;
    case "accepted":
      pending.delete(key);
  }
}
