/**
 * A `TokenSink` over a `RowWriter`: encodes and digests in the caller's thread, hands rows to the one writer and turns
 * its answers into errors. Built in each model-server worker.
 *
 * K1. A call keeps the epoch it began in, so what it writes after a reset is refused.
 * K2. Nothing is repeated here. Un-acknowledged is not un-stored: whoever carries the operations to a writer that died
 *     may send them again as they were, because the same id and payload is a no-op.
 * K3. Rows reach the writer in the order they were encoded: one may be stored upon the one before. Where the writer
 *     lacks that one, the record goes whole.
 * K4. Bytes on their way to the writer are bounded; a put beyond the bound waits.
 * K5. A put need not wait for its intent's answer: the writer keeps their order, and takes the record only where the
 *     intent is stored. Both may so share one commit.
 */
import type { CallOutcome, LineageKey, LineageNode, TokenSink } from "./contracts.js";
import { type EntryRow, withoutBase } from "./entry-row.js";
import { CaptureError, type CaptureErrorCode } from "./errors.js";
import type { TokenEntry } from "./records.js";
import { type ComparedPrompt, RowEncoder } from "./store-encoder.js";
import { ByteGate } from "./store-gate.js";
import type { CallEpoch, RowWriter, StoreAnswer, StoreOperation } from "./store-protocol.js";

type Refusal = Exclude<StoreAnswer["answer"], "ok">;

const REFUSALS: Readonly<Record<Refusal, readonly [code: CaptureErrorCode, why: string]>> = {
  conflict: [
    "RECORD_CONFLICT",
    "the call was put before with another payload, or ended; the rollout is incomplete",
  ],
  frozen: ["ROLLOUT_FROZEN", "the rollout is frozen"],
  retired: ["ROLLOUT_RETIRED", "the rollout was dropped"],
  stale_epoch: [
    "STALE_EPOCH",
    "the call began before the rollout was reset, or its intent was not stored",
  ],
  rebase: ["STORE_FAILED", "the writer asked for the whole record and got it"],
};

export interface StoreSinkOptions {
  /** Bytes handed over and not yet answered; one put always passes. Default 64 MiB. */
  readonly maxQueuedBytes?: number;
}

interface BegunCall {
  readonly epoch: number | "begun";
  readonly compared: ComparedPrompt | undefined;
}

const DEFAULT_MAX_QUEUED_BYTES = 64 * 1024 * 1024;

export class StoreSink implements TokenSink {
  readonly #writer: RowWriter;
  readonly #encoder = new RowEncoder();
  readonly #gate: ByteGate;
  /** By rollout id and call id; an entry goes when its call is settled. */
  readonly #begun = new Map<string, BegunCall>();
  #closed = false;

  constructor(writer: RowWriter, options: StoreSinkOptions = {}) {
    this.#writer = writer;
    this.#gate = new ByteGate(options.maxQueuedBytes ?? DEFAULT_MAX_QUEUED_BYTES);
  }

  /**
   * @param prompt int32[P] that the call will be put with, where it is known: compared here while the intent is on its
   *   way to the disk, so that `put` need not. The array must not change until the call is settled.
   */
  async beginCall(rolloutId: string, modelCallId: string, prompt?: Int32Array): Promise<void> {
    const key = callKey(rolloutId, modelCallId);
    const asked: BegunCall = { epoch: "begun", compared: undefined };
    this.#begun.set(key, asked); // K5
    try {
      const [answer, compared] = await Promise.all([
        this.#send({ kind: "begin", rolloutId, modelCallId }),
        this.#compareMeanwhile(key, asked, rolloutId, prompt),
      ]);
      const epoch = this.#settle(answer, "begin", rolloutId, modelCallId);
      if (this.#begun.get(key) === asked) this.#begun.set(key, { epoch, compared });
    } catch (error) {
      if (this.#begun.get(key) === asked) this.#begun.delete(key);
      throw error;
    }
  }

  /**
   * Checks the record once more: nothing that is not a number may reach a trainer. The arrays must
   * not change until this resolves.
   * @throws RECORD_INVALID, MULTIPLE_TOKEN_CARRIERS or SCHEMA_TOO_NEW as `parseTokenEntry` does.
   */
  async put(entry: TokenEntry): Promise<void> {
    this.#refuseClosed();
    const key = callKey(entry.rollout_id, entry.model_call_id);
    const begun = this.#begun.get(key);
    // Whoever still compares for it need not.
    if (begun?.epoch === "begun") this.#begun.set(key, { ...begun });
    const row = this.#encoder.encode(entry, begun?.compared);
    const { rolloutId, modelCallId } = row;
    const epoch = begun?.epoch ?? null; // K1, K5
    const bytes = sizeOf(row);
    await this.#gate.enter(bytes); // K4
    try {
      let answer = await this.#send({ kind: "put", row, epoch });
      if (answer.answer === "rebase")
        answer = await this.#send({ kind: "put", row: withoutBase(row, entry), epoch }); // K3
      this.#settle(answer, "put", rolloutId, modelCallId);
    } finally {
      this.#gate.leave(bytes);
    }
    this.#encoder.confirm(row);
    this.#begun.delete(key);
  }

  async endCall(rolloutId: string, modelCallId: string, outcome: CallOutcome): Promise<void> {
    const epoch = this.#epochOf(rolloutId, modelCallId);
    const answer = await this.#send({ kind: "end", rolloutId, modelCallId, outcome, epoch });
    this.#settle(answer, "end", rolloutId, modelCallId);
    this.#begun.delete(callKey(rolloutId, modelCallId));
  }

  async markIncomplete(rolloutId: string, modelCallId?: string): Promise<void> {
    const call = modelCallId === undefined ? {} : { modelCallId };
    const answer = await this.#send({ kind: "mark", rolloutId, ...call });
    this.#settle(answer, "mark", rolloutId, modelCallId);
  }

  /**
   * int32[P+G] of a call that this sink put and that was not continued since; undefined for any other. Saves a reader
   * the way to the file.
   */
  recentIds(rolloutId: string, modelCallId: string): Int32Array | undefined {
    return this.#encoder.cumulativeIds(rolloutId, modelCallId);
  }

  /** What lineage would find under the key, where this sink alone knows it; undefined: ask the store. */
  recentCandidates(rolloutId: string, key: LineageKey): readonly LineageNode[] | undefined {
    return this.#encoder.candidates(rolloutId, key);
  }

  /** Gives back what is remembered of a rollout that makes no more calls, or begins again; a later put of it is stored whole. */
  forget(rolloutId: string): void {
    this.#encoder.forget(rolloutId);
  }

  /** Leaves the writer open: whoever built it closes it. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#gate.close(sinkClosed());
    this.#begun.clear();
  }

  async #compareMeanwhile(
    key: string,
    asked: BegunCall,
    rolloutId: string,
    prompt: Int32Array | undefined,
  ): Promise<ComparedPrompt | undefined> {
    if (prompt === undefined) return undefined;
    // A batched writer sends when the loop turns: what is sent first, the disk works on.
    await new Promise((resolve) => setImmediate(resolve));
    // An engine may have answered at once: the record is encoded then.
    return this.#begun.get(key) === asked ? this.#encoder.compare(rolloutId, prompt) : undefined;
  }

  /** K1 */
  #epochOf(rolloutId: string, modelCallId: string): CallEpoch {
    return this.#begun.get(callKey(rolloutId, modelCallId))?.epoch ?? null;
  }

  async #send(operation: StoreOperation): Promise<StoreAnswer> {
    this.#refuseClosed();
    return this.#writer.write(operation);
  }

  /** The epoch of an accepted operation. */
  #settle(answer: StoreAnswer, kind: string, rolloutId: string, callId?: string): number {
    if (answer.answer === "ok") return answer.epoch;
    // A refusal is final: no repetition of the call can be accepted, so its epoch is not needed any more.
    if (callId !== undefined) this.#begun.delete(callKey(rolloutId, callId));
    const [code, why] = REFUSALS[answer.answer];
    const call = callId === undefined ? "" : `, call ${JSON.stringify(callId)}`;
    throw new CaptureError(
      code,
      `${kind} was refused for rollout ${JSON.stringify(rolloutId)}${call}: ${why}.`,
    );
  }

  #refuseClosed(): void {
    if (this.#closed) throw sinkClosed();
  }
}

function sizeOf(row: EntryRow): number {
  return (
    row.prompt.byteLength + row.generation.byteLength + row.logProbs.byteLength + row.meta.length
  );
}

function sinkClosed(): CaptureError {
  return new CaptureError("STORE_CLOSED", "The sink is closed.");
}

function callKey(rolloutId: string, modelCallId: string): string {
  return JSON.stringify([rolloutId, modelCallId]);
}
