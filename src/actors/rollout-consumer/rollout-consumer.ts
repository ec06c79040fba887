/**
 * Turns finished rollouts into durable rows: seal, journal, freeze and rebuild, append, retire. It holds no policy of
 * its own about what is trainable: capture decides.
 *
 * R1. The order is fixed: every server sealed, then result and ledgers journaled, then frozen, then the row durable,
 *     then its evidence dropped. A crash between two steps loses nothing and doubles nothing.
 * R2. One row per slot: the first durable one. A later delivery of that slot writes nothing.
 * R3. A server that cannot say what it counted masks (WORKER_DIED); a result that could not be journaled masks
 *     (JOURNAL_FAILED).
 * R4. Evidence is dropped only for an unmasked row that is durable.
 * R5. A rollout that was not captured, or is not to be rebuilt, gets a row with its text and nothing of capture.
 */
import {
  type FinalizedCapture,
  finalizeRolloutTokenCapture,
  type MaskReason,
  retireRolloutTokenCapture,
  type TokenSource,
} from "../../capture/index.js";
import type { FinishedRollout, RolloutLedger, RolloutSlot } from "../rollout.js";
import { Journal, type JournaledRollout, type SlotAttempt, slotKey } from "./journal.js";
import { JsonlWriter } from "./jsonl-writer.js";
import type { RolloutSealer, RowOptions } from "./options.js";
import { type DeliveryReport, deliveredReport, undeliveredReport } from "./report.js";
import { type DeliveredRow, readDeliveredRow, textRow } from "./row.js";

interface ConsumerLogger {
  info(fields: Record<string, unknown>, message: string): void;
  warn(fields: Record<string, unknown>, message: string): void;
}

/** What a consumer works with. */
export interface RolloutConsumerParts {
  readonly journalPath: string;
  readonly outPath: string;
  readonly source: Pick<TokenSource, "freeze" | "drop"> | null;
  readonly servers: readonly RolloutSealer[];
  readonly rebuildResponse: boolean;
  readonly rows?: RowOptions;
  readonly policy?: { readonly kind: string; readonly checkpoint_digest?: string };
  readonly logger: ConsumerLogger;
}

/** What an earlier run left. */
export interface Recovery {
  /** Every slot that has a row, the ones just re-delivered included. */
  readonly delivered: readonly RolloutSlot[];
  readonly attempts: readonly SlotAttempt[];
  readonly redelivered: readonly DeliveryReport[];
}

export class RolloutConsumer {
  readonly #parts: RolloutConsumerParts;
  readonly #journal: Journal;
  readonly #out: JsonlWriter;
  readonly #rows: Map<string, DeliveredRow>;
  #last: Promise<unknown> = Promise.resolve();

  /** With files that are open already; `open` opens them. */
  constructor(
    parts: RolloutConsumerParts,
    journal: Journal,
    out: JsonlWriter,
    rows: Map<string, DeliveredRow>,
  ) {
    this.#parts = parts;
    this.#journal = journal;
    this.#out = out;
    this.#rows = rows;
  }

  /** @throws FILE_CORRUPT when the journal or the rows hold a bad line that is not a torn last one. */
  static async open(parts: RolloutConsumerParts): Promise<RolloutConsumer> {
    const rows = new Map<string, DeliveredRow>();
    const out = await JsonlWriter.open(parts.outPath, (value) => {
      const row = readDeliveredRow(value);
      const key = slotKey(row.slot);
      if (!rows.has(key)) rows.set(key, row);
    });
    try {
      const journal = await Journal.open(parts.journalPath);
      for (const { path, cutBytes } of [out, journal])
        if (cutBytes > 0) parts.logger.warn({ path, cutBytes }, "a torn last line was cut");
      return new RolloutConsumer(parts, journal, out, rows);
    } catch (error) {
      await out.close();
      throw error;
    }
  }

  /**
   * Finishes what an earlier run began: finished rollouts without a row are delivered, rows whose evidence was not
   * dropped are accounted for. Call it before open rollouts of that run are abandoned: what it re-delivers may not be
   * frozen yet.
   */
  recover(): Promise<Recovery> {
    return this.#inOrder(async () => {
      const redelivered: DeliveryReport[] = [];
      for (const [key, pending] of this.#journal.pending) {
        const row = this.#rows.get(key);
        if (row === undefined) redelivered.push(await this.#write(pending, []));
        else await this.#account(row);
      }
      const delivered = [...this.#rows.values()].map((row) => row.slot);
      return { delivered, attempts: this.#journal.attempts, redelivered };
    });
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
    return this.#inOrder(async () => {
      const known = this.#rows.get(slotKey(finished.slot));
      if (known !== undefined) {
        const message = `slot ${slotKey(finished.slot)} has the row of ${known.rolloutId} already`;
        return undeliveredReport(finished, ledgers, message); // R2
      }
      const reasons = await this.#journalFinished({ finished, ledgers });
      return this.#write({ finished, ledgers }, reasons);
    });
  }

  async close(): Promise<void> {
    await this.#last;
    await Promise.all([this.#out.close(), this.#journal.close()]);
  }

  #inOrder<T>(step: () => Promise<T>): Promise<T> {
    const done = this.#last.then(step);
    this.#last = done.catch(() => {});
    return done;
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

  /** From freeze to retire (R1). */
  async #write(rollout: JournaledRollout, reasons: readonly MaskReason[]): Promise<DeliveryReport> {
    const { finished, ledgers } = rollout;
    const { slot, rolloutId } = finished;
    const row = textRow(finished, this.#parts.policy);
    const built = await this.#rebuild(row, rollout, reasons);
    try {
      await this.#out.append(row);
    } catch (error) {
      return undeliveredReport(finished, ledgers, messageOf(error));
    }
    this.#rows.set(slotKey(slot), readDeliveredRow(row));
    await this.#noted(() => this.#journal.handedOff(slot, rolloutId));
    if (built !== null && !built.masked) await this.#retire(rolloutId, built);
    await this.#noted(() => this.#journal.accepted(slot, rolloutId));
    return deliveredReport(finished, row, ledgers, built);
  }

  async #rebuild(
    row: ReturnType<typeof textRow>,
    { finished, ledgers }: JournaledRollout,
    reasons: readonly MaskReason[],
  ): Promise<FinalizedCapture | null> {
    const { source, rebuildResponse } = this.#parts;
    if (!finished.captured || !rebuildResponse || source === null) return null; // R5
    const died = ledgers.flatMap((ledger, index) =>
      ledger === null ? [{ code: "WORKER_DIED", detail: `model server ${index}` }] : [],
    );
    const { finalMessageId: messageId, finalText: text } = finished.outcome;
    return finalizeRolloutTokenCapture(row, source, {
      ...this.#parts.rows,
      arrays: "views",
      ledgers: ledgers.filter((ledger) => ledger !== null),
      terminal: { messageId, text },
      extraMaskReasons: [...died, ...reasons],
    });
  }

  /** R4. */
  async #retire(rolloutId: string, built: FinalizedCapture): Promise<void> {
    const { source, logger } = this.#parts;
    if (source === null || (await retireRolloutTokenCapture(rolloutId, source, built))) return;
    logger.warn({ rolloutId }, "the store refused to drop a delivered rollout; its evidence stays");
  }

  /** The row is durable, so a lost note costs only that the next start looks again. */
  async #noted(note: () => Promise<void>): Promise<void> {
    try {
      await note();
    } catch (error) {
      this.#parts.logger.warn({ err: error }, "the journal did not take a note");
    }
  }

  /** A row of an earlier run whose end was not journaled: drops what it proves delivered (R4). */
  async #account({ slot, rolloutId, droppableCalls }: DeliveredRow): Promise<void> {
    const { source, logger } = this.#parts;
    try {
      if (source !== null && droppableCalls !== null) {
        const snapshot = await source.freeze(rolloutId);
        const same = !snapshot.incomplete && snapshot.entries.length === droppableCalls;
        if (same) await source.drop(rolloutId, snapshot);
      }
    } catch (error) {
      logger.warn({ rolloutId, err: error }, "the evidence of a delivered rollout stays");
    }
    await this.#noted(() => this.#journal.accepted(slot, rolloutId));
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
