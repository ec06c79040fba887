/**
 * What a consumer asks of the source of a rollout's records: build from them, and drop what a durable row proves. A
 * failure leaves the evidence where it is and is logged.
 */
import {
  type FinalizedCapture,
  finalizeRolloutTokenCapture,
  type MaskReason,
  retireRolloutTokenCapture,
  type TokenSource,
} from "../../capture/index.js";
import type { FinishedRollout, RolloutRow } from "../rollout.js";
import type { JournaledRollout } from "./journal.js";
import type { Evidence } from "./journal-record.js";
import type { RowOptions } from "./options.js";

interface ConsumerLogger {
  info(fields: Record<string, unknown>, message: string): void;
  warn(fields: Record<string, unknown>, message: string): void;
}

export interface EvidenceParts {
  readonly source: Pick<TokenSource, "freeze" | "drop"> | null;
  readonly rebuildResponse: boolean;
  /** What a row holds. Default: the main chain, in full form. */
  readonly rows?: RowOptions;
  readonly logger: ConsumerLogger;
}

export class CaptureEvidence {
  readonly #parts: EvidenceParts;

  constructor(parts: EvidenceParts) {
    this.#parts = parts;
  }

  /**
   * Freezes and rebuilds in place; null when the rollout has no capture to rebuild. As `views` the row shares the memory of
   * the records: enough to write it, too much to send it to another thread.
   */
  async rebuild(
    row: RolloutRow,
    { finished, ledgers }: JournaledRollout,
    reasons: readonly MaskReason[],
    arrays: "plain" | "views",
  ): Promise<FinalizedCapture | null> {
    const { source, rebuildResponse } = this.#parts;
    if (!finished.captured || !rebuildResponse || source === null) return null; // R5
    const died = ledgers.flatMap((ledger, index) =>
      ledger === null ? [{ code: "WORKER_DIED", detail: `model server ${index}` }] : [],
    );
    const { finalMessageId: messageId, finalText: text } = finished.outcome;
    return finalizeRolloutTokenCapture(row, source, {
      ...this.#parts.rows,
      arrays,
      ledgers: ledgers.filter((ledger) => ledger !== null),
      terminal: { messageId, text },
      extraMaskReasons: [...died, ...reasons],
    });
  }

  /** R4. */
  async retire(rolloutId: string, built: FinalizedCapture): Promise<void> {
    const { source, logger } = this.#parts;
    if (source === null || (await retireRolloutTokenCapture(rolloutId, source, built))) return;
    logger.warn({ rolloutId }, "the store refused to drop a delivered rollout; its evidence stays");
  }

  /** Before open rollouts are abandoned: a finished one must not look cut off. */
  async freeze({ captured, rolloutId }: FinishedRollout): Promise<void> {
    const { source, rebuildResponse, logger } = this.#parts;
    if (!captured || !rebuildResponse || source === null) return;
    try {
      await source.freeze(rolloutId);
    } catch (error) {
      logger.warn({ rolloutId, err: error }, "a finished rollout could not be frozen");
    }
  }

  /** Drops exactly this snapshot. */
  async drop(rolloutId: string, evidence: Evidence): Promise<void> {
    const { source, logger } = this.#parts;
    try {
      if (source === null || (await source.drop(rolloutId, evidence))) return;
      logger.warn({ rolloutId }, "the store refused to drop an accepted rollout");
    } catch (error) {
      logger.warn({ rolloutId, err: error }, "the evidence of an accepted rollout stays");
    }
  }

  /** Drops the evidence behind an unmasked row of an earlier run, when it is still what the row counted (R4). */
  async dropDelivered(rolloutId: string, calls: number): Promise<void> {
    const { source, logger } = this.#parts;
    if (source === null) return;
    try {
      const snapshot = await source.freeze(rolloutId);
      const same = !snapshot.incomplete && snapshot.entries.length === calls;
      if (same) await source.drop(rolloutId, snapshot);
    } catch (error) {
      logger.warn({ rolloutId, err: error }, "the evidence of a delivered rollout stays");
    }
  }
}
