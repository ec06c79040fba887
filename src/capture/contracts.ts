/**
 * The contracts between a model server that records calls, a store that keeps them and a consumer that trains on them.
 * Structural: an adapter need not import this file.
 */
import type { ServedToolCall, TokenEntry } from "./records.js";

/** How a call ended that produced no trainable tokens. */
export type CallOutcome = "failed" | "aborted";

/** Writes records. One instance per model-server worker, built in that worker. */
export interface TokenSink {
  /**
   * Contract: durable, and visible to every worker's lineage, before it resolves. Same id and same payload: no-op.
   * @throws RECORD_CONFLICT when the id was put with another payload; the rollout is incomplete.
   * @throws ROLLOUT_FROZEN when the rollout was frozen; its version moves and it is incomplete.
   * @throws ROLLOUT_RETIRED when it was dropped.
   * @throws STALE_EPOCH when the call began before the last `reset`.
   */
  put(entry: TokenEntry): Promise<void>;
  /** Contract: a durable mark that a call of this rollout was lost. Never cleared but by `reset`. */
  markIncomplete(rolloutId: string, modelCallId?: string): Promise<void>;
  /**
   * Contract: a durable intent; one with neither entry nor end at freeze is incomplete. Asked for when the engine is;
   * settled, or given up after the caller's time limit, before the call is put, ended or answered.
   * @param prompt int32[P], where the call's prompt is known by then: a sink may prepare for it while the engine works.
   *   It does not change until the call is settled, and the entry that is put holds this very array.
   */
  beginCall?(rolloutId: string, modelCallId: string, prompt?: Int32Array): Promise<void>;
  /** Closes an intent that produced no trainable tokens. */
  endCall?(rolloutId: string, modelCallId: string, outcome: CallOutcome): Promise<void>;
  /** Idempotent. */
  close(): Promise<void>;
}

/** All that a store knew of a rollout at one moment. Immutable. */
export interface TokenCaptureSnapshot {
  readonly rolloutId: string;
  /** Order carries no meaning. */
  readonly entries: readonly TokenEntry[];
  readonly incomplete: boolean;
  /** Why, when incomplete: `LOST_CALL`, `DANGLING_INTENT`, `DIGEST_MISMATCH`, `SCHEMA_TOO_NEW`, … */
  readonly incompleteReasons: readonly string[];
  readonly failedCalls: number;
  readonly abortedCalls: number;
  readonly snapshotId: string;
  readonly version: number;
}

/** Reads and retires records. */
export interface TokenSource {
  /** Contract: atomic, idempotent for an unchanged rollout. A rollout never seen freezes to an empty snapshot. */
  freeze(rolloutId: string): Promise<TokenCaptureSnapshot>;
  /** Contract: retires exactly that snapshot; false when the rollout changed after it. */
  drop(
    rolloutId: string,
    snapshot: { readonly snapshotId: string; readonly version: number },
  ): Promise<boolean>;
  /** Idempotent. */
  close(): Promise<void>;
}

/** What is known of a recorded call when a later request may continue it. */
export interface LineageNode {
  readonly modelCallId: string;
  readonly model: string;
  readonly contextDigest: string;
  readonly contextLength: number;
  readonly fingerprintVersion: number;
  readonly servedText: string;
  readonly servedToolCalls: readonly ServedToolCall[];
  readonly finishReason: string | undefined;
  /** Prompt plus generated tokens. */
  readonly cumLen: number;
  /** The entry's digest: equal digests of ids mean identical tokens. */
  readonly cumulativeDigest: string;
}

/** How candidates are looked up: by the served tool-call ids of the last assistant turn, else by its exact text. */
export type LineageKey =
  | { readonly kind: "tool_call_ids"; readonly ids: readonly string[] }
  | { readonly kind: "text"; readonly text: string };

/** Finds, among the recorded calls of a rollout, by any worker, the one that a request continues. */
export interface TokenLineage {
  candidates(rolloutId: string, key: LineageKey): Promise<readonly LineageNode[]>;
  /**
   * int32[P+G] of that call.
   * @throws CALL_NOT_FOUND when no such call is recorded.
   */
  cumulativeIds(rolloutId: string, modelCallId: string): Promise<Int32Array>;
}
