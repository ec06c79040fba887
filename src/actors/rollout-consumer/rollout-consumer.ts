/**
 * Turns finished rollouts into durable rows: seal, journal, freeze and rebuild, hand off, retire. It holds no policy of
 * its own about what is trainable: capture decides. A row is handed off by appending it to a file, or, without a file, by
 * a trainer that accepts it.
 *
 * R1. The order is fixed: every server sealed, then result and ledgers journaled, then frozen, then the row durable,
 *     then its evidence dropped. A crash between two steps loses nothing and doubles nothing.
 * R2. One row per slot: the first durable one. A later delivery of that slot writes nothing. Rollouts of different slots
 *     are delivered at the same time.
 * R3. A server that cannot say what it counted masks (WORKER_DIED); a result that could not be journaled masks
 *     (JOURNAL_FAILED).
 * R4. Evidence is dropped only for an unmasked row that is durable.
 * R5. A rollout that was not captured, or is not to be rebuilt, gets a row with its text and nothing of capture.
 */
import type { MaskReason } from "../../capture/index.js";
import type { FinishedRollout, RolloutLedger, RolloutSlot } from "../rollout.js";
import { CaptureEvidence } from "./capture-evidence.js";
import { RolloutConsumerError } from "./errors.js";
import { Journal, type JournaledRollout, slotKey } from "./journal.js";
import type { Evidence } from "./journal-record.js";
import { JsonlWriter } from "./jsonl-writer.js";
import type { RolloutConsumerParts } from "./parts.js";
import type { PassBook } from "./pass-book.js";
import {
  type DeliveryReport,
  deliveredReport,
  type Recovery,
  undeliveredReport,
} from "./report.js";
import { type DeliveredRow, policyOf, readDeliveredRow, textRow } from "./row.js";
import { TrainerHandOff } from "./trainer-hand-off.js";

export class RolloutConsumer {
  readonly #parts: RolloutConsumerParts;
  readonly #journal: Journal;
  readonly #passes: PassBook;
  readonly #evidence: CaptureEvidence;
  readonly #trainer: TrainerHandOff;
  /** Null when rows go to a trainer. */
  readonly #out: JsonlWriter | null;
  readonly #rows: Map<string, DeliveredRow>;
  /** Policy version → digest of its weights. */
  readonly #digests = new Map<number, string>();
  /** Slot → its delivery on the way. */
  readonly #deliveries = new Map<string, Promise<unknown>>();

  /** With files that are open already; `open` opens them. */
  constructor(
    parts: RolloutConsumerParts,
    journal: Journal,
    out: JsonlWriter | null,
    rows: Map<string, DeliveredRow>,
  ) {
    this.#parts = parts;
    this.#journal = journal;
    this.#passes = journal.history.passes;
    this.#out = out;
    this.#rows = rows;
    this.#evidence = new CaptureEvidence(parts);
    this.#trainer = new TrainerHandOff({
      journal,
      passes: this.#passes,
      drop: (rolloutId, evidence) => this.#evidence.drop(rolloutId, evidence),
      noted: (note) => this.#noted(note),
    });
  }

  /** @throws FILE_CORRUPT when the journal or the rows hold a bad line that is not a torn last one. */
  static async open(parts: RolloutConsumerParts): Promise<RolloutConsumer> {
    const rows = new Map<string, DeliveredRow>();
    const { outPath } = parts;
    const out =
      outPath === undefined
        ? null
        : await JsonlWriter.open(outPath, (value) => {
            const row = readDeliveredRow(value);
            const key = slotKey(row.slot);
            if (!rows.has(key)) rows.set(key, row);
          });
    try {
      const journal = await Journal.open(parts.journalPath);
      for (const { path, cutBytes } of out === null ? [journal] : [out, journal])
        if (cutBytes > 0) parts.logger.warn({ path, cutBytes }, "a torn last line was cut");
      return new RolloutConsumer(parts, journal, out, rows);
    } catch (error) {
      await out?.close();
      throw error;
    }
  }

  /**
   * Finishes what an earlier run began: finished rollouts without a row are delivered, or frozen when a trainer is to
   * take them; rows whose evidence was not dropped are accounted for. Call it before open rollouts of that run are
   * abandoned: what it re-delivers may not be frozen yet.
   */
  async recover(): Promise<Recovery> {
    const { pending, attempts, passes } = this.#journal.history;
    const redelivered: DeliveryReport[] = [];
    for (const [key, rollout] of pending) {
      const row = this.#rows.get(key);
      if (row !== undefined) await this.#account(row);
      else if (this.#out !== null) redelivered.push(await this.#write(rollout, []));
      else if (rollout.handedOff === undefined) await this.#evidence.freeze(rollout.finished);
      else {
        await this.#endHandOff(rollout.finished, rollout.handedOff.evidence);
        pending.delete(key);
      }
    }
    const waiting = this.#out === null ? [...pending.values()] : [];
    return {
      delivered: [...this.#rows.values()].map((row) => row.slot),
      attempts: [...attempts.values()],
      redelivered,
      pending: waiting.map(({ finished: { slot, rolloutId, task } }) => ({
        slot,
        rolloutId,
        task,
      })),
      passes: passes.open(),
      lastPass: passes.last,
    };
  }

  /** Rows of calls that this version sampled name these weights. */
  policyUpdated(version: number, digest: string): void {
    this.#digests.set(version, digest);
  }

  /** Journals that a pass of a trainer begins; its number is the next. @throws APPEND_FAILED when that is not durable. */
  async beginPass(asked: { readonly digest: string; readonly slots: number }): Promise<number> {
    const pass = { pass: this.#passes.last + 1, ...asked };
    this.#passes.begin(pass);
    await this.#journal.pass(pass);
    return pass.pass;
  }

  /** Journals that the trainer does not go on with a pass: what is finished of it is still delivered. */
  async leavePass(pass: number): Promise<void> {
    this.#passes.leave(pass);
    await this.#journal.passLeft(pass);
  }

  /**
   * Journals that an attempt starts.
   * @throws APPEND_FAILED when that is not durable: the attempt must not start, its id could come again.
   */
  async begin(start: { slot: RolloutSlot; attempt: number; rolloutId: string }): Promise<void> {
    await this.#journal.started(start.slot, start.attempt, start.rolloutId);
  }

  /** Delivers one finished rollout. A rollout that gets no row is a report with DELIVERY_ERROR, not a throw. */
  async deliver(finished: FinishedRollout): Promise<DeliveryReport> {
    const ledgers = await this.#seal(finished.rolloutId);
    return this.#alone(finished.slot, async () => {
      const known = this.#knownRollout(finished.slot);
      if (known !== undefined) {
        const message = `slot ${slotKey(finished.slot)} has ${known} already`;
        return undeliveredReport(finished, ledgers, message); // R2
      }
      const reasons = await this.#journalFinished({ finished, ledgers });
      return this.#write({ finished, ledgers }, reasons);
    });
  }

  /** The row of a rollout that `recover` found pending. @throws NOT_HELD when it is none. */
  async redeliver(slot: RolloutSlot): Promise<DeliveryReport> {
    const key = slotKey(slot);
    const { pending } = this.#journal.history;
    const rollout = pending.get(key);
    if (rollout === undefined)
      throw new RolloutConsumerError("NOT_HELD", `slot ${key} has no finished rollout`);
    const report = await this.#alone(slot, () => this.#write(rollout, []));
    pending.delete(key);
    return report;
  }

  /**
   * The trainer has these rows durably: their evidence is dropped (R1, R4).
   * @throws NOT_HELD when one is not waiting; APPEND_FAILED when it is not durable: call it again.
   */
  accept(rolloutIds: readonly string[]): Promise<void> {
    return this.#trainer.accept(rolloutIds);
  }

  /** The trainer does not want these rows: they are not delivered again, their evidence stays. @throws as `accept`. */
  reject(rolloutIds: readonly string[], reason: string): Promise<void> {
    return this.#trainer.reject(rolloutIds, reason);
  }

  async close(): Promise<void> {
    await Promise.allSettled(this.#deliveries.values());
    await Promise.all([this.#out?.close(), this.#journal.close()]);
    await this.#parts.onClose?.();
  }

  /** After every delivery of this slot that came before. */
  async #alone<T>(slot: RolloutSlot, step: () => Promise<T>): Promise<T> {
    const key = slotKey(slot);
    const before = this.#deliveries.get(key) ?? Promise.resolve();
    const done = before.then(step);
    const settled = done.catch(() => {});
    this.#deliveries.set(key, settled);
    try {
      return await done;
    } finally {
      if (this.#deliveries.get(key) === settled) this.#deliveries.delete(key);
    }
  }

  /** What the slot has already, in words; undefined when it is free. */
  #knownRollout(slot: RolloutSlot): string | undefined {
    const row = this.#rows.get(slotKey(slot));
    if (row !== undefined) return `the row of ${row.rolloutId}`;
    if (this.#out !== null) return undefined;
    const holder = this.#trainer.holderOf(slot);
    if (holder !== undefined) return `rollout ${holder}`;
    return this.#passes.isSettled(slot) ? "been settled" : undefined;
  }

  async #seal(rolloutId: string): Promise<(RolloutLedger | null)[]> {
    const sealing = this.#parts.servers.map(async (server, index) => {
      try {
        return await server.sealRollout(rolloutId);
      } catch (error) {
        this.#parts.logger.warn({ rolloutId, server: index, err: error }, "a server did not seal");
        return null;
      }
    });
    return Promise.all(sealing);
  }

  async #journalFinished(rollout: JournaledRollout): Promise<MaskReason[]> {
    try {
      await this.#journal.finished(rollout);
      return [];
    } catch (error) {
      this.#parts.logger.warn({ err: error }, "the journal did not take a finished rollout");
      return [{ code: "JOURNAL_FAILED", detail: messageOf(error) }]; // R3
    }
  }

  /** From freeze to retire, or to the trainer (R1). */
  async #write(rollout: JournaledRollout, reasons: readonly MaskReason[]): Promise<DeliveryReport> {
    const { finished, ledgers } = rollout;
    const { slot, rolloutId } = finished;
    const row = textRow(finished);
    const built = await this.#evidence.rebuild(
      row,
      rollout,
      reasons,
      this.#out === null ? "plain" : "views",
    );
    const policy = policyOf(this.#parts.policy, this.#digests, built?.metrics?.policy_version);
    if (policy !== undefined) row["_ng_policy"] = policy;
    if (this.#out === null) {
      this.#trainer.hold(slot, rolloutId, built);
      return { ...deliveredReport(finished, row, ledgers, built), row };
    }
    try {
      await this.#out.append(row);
    } catch (error) {
      return undeliveredReport(finished, ledgers, messageOf(error));
    }
    this.#rows.set(slotKey(slot), readDeliveredRow(row));
    void this.#noted(this.#journal.handedOff(slot, rolloutId));
    if (built !== null && !built.masked) await this.#evidence.retire(rolloutId, built);
    void this.#noted(this.#journal.accepted(slot, rolloutId));
    return deliveredReport(finished, row, ledgers, built);
  }

  /** The row is durable, so a lost note costs only that the next start looks again. */
  async #noted(note: Promise<void>): Promise<void> {
    try {
      await note;
    } catch (error) {
      this.#parts.logger.warn({ err: error }, "the journal did not take a note");
    }
  }

  async #account({ slot, rolloutId, droppableCalls }: DeliveredRow): Promise<void> {
    if (droppableCalls !== null) await this.#evidence.dropDelivered(rolloutId, droppableCalls);
    await this.#noted(this.#journal.accepted(slot, rolloutId));
  }

  /** A rollout that a trainer had taken when the earlier run died. */
  async #endHandOff({ slot, rolloutId }: FinishedRollout, evidence: Evidence | null) {
    if (evidence !== null) await this.#evidence.drop(rolloutId, evidence);
    await this.#noted(this.#journal.accepted(slot, rolloutId));
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
