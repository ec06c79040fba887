/**
 * What a sink asks of the one writer, and what the writer answers. Plain data: both cross threads.
 */
import type { CallOutcome } from "./contracts.js";
import type { EntryRow } from "./entry-row.js";

/**
 * The epoch that `begin` answered; `begun` while its answer is on the way, which the stored intent stands for; null for
 * a call that was never begun, which no reset fences.
 */
export type CallEpoch = number | "begun" | null;

export type StoreOperation =
  | { readonly kind: "begin"; readonly rolloutId: string; readonly modelCallId: string }
  | {
      readonly kind: "end";
      readonly rolloutId: string;
      readonly modelCallId: string;
      readonly outcome: CallOutcome;
      readonly epoch: CallEpoch;
    }
  | { readonly kind: "put"; readonly row: EntryRow; readonly epoch: CallEpoch }
  | { readonly kind: "mark"; readonly rolloutId: string; readonly modelCallId?: string };

/** A refusal is an answer, not an error: what it left behind (a mark) is committed. */
export type StoreAnswer =
  | { readonly answer: "ok"; readonly epoch: number }
  | { readonly answer: "conflict" | "frozen" | "retired" | "stale_epoch" }
  /** The row's base is not stored: the record must be sent whole. Nothing was written. */
  | { readonly answer: "rebase" };

/** What became of an operation that was sent together with others. */
export type StoreOutcome = StoreAnswer | { readonly answer: "failed"; readonly error: unknown };

/**
 * The seam between workers that encode and the thread that commits.
 * Contract: durable before it resolves; rejects only when the writer or its disk failed.
 */
export interface RowWriter {
  write(operation: StoreOperation): Promise<StoreAnswer>;
}
