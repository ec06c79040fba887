/**
 * A `TokenSink` over a `RowWriter`: encodes and digests in the caller's thread, hands rows to the one writer and turns
 * its answers into errors. Built in each model-server worker.
 *
 * K1. A call keeps the epoch it began in, so what it writes after a reset is refused.
 * K2. Nothing is repeated here. Un-acknowledged is not un-stored: a `put`, `beginCall` or `endCall` whose answer was
 *     lost may be sent again as it was, because the same id and payload is a no-op.
 */
import type { CallOutcome, TokenSink } from "./contracts.js";
import { encodeEntry } from "./entry-row.js";
import { CaptureError, type CaptureErrorCode } from "./errors.js";
import { parseTokenEntry } from "./parse-entry.js";
import type { TokenEntry } from "./records.js";
import type { CallEpoch, RowWriter, StoreAnswer, StoreOperation } from "./store-protocol.js";

type Refusal = Exclude<StoreAnswer["answer"], "ok">;

const REFUSALS: Readonly<Record<Refusal, readonly [code: CaptureErrorCode, why: string]>> = {
  conflict: [
    "RECORD_CONFLICT",
    "the call was put before with another payload, or ended; the rollout is incomplete",
  ],
  frozen: ["ROLLOUT_FROZEN", "the rollout is frozen"],
  retired: ["ROLLOUT_RETIRED", "the rollout was dropped"],
  stale_epoch: ["STALE_EPOCH", "the call began before the rollout was reset"],
};

export class StoreSink implements TokenSink {
  readonly #writer: RowWriter;
  /** By rollout id and call id; an entry goes when its call is settled. */
  readonly #epochs = new Map<string, number>();
  #closed = false;

  constructor(writer: RowWriter) {
    this.#writer = writer;
  }

  async beginCall(rolloutId: string, modelCallId: string): Promise<void> {
    const epoch = await this.#write(
      { kind: "begin", rolloutId, modelCallId },
      rolloutId,
      modelCallId,
    );
    this.#epochs.set(callKey(rolloutId, modelCallId), epoch);
  }

  /**
   * Checks the record once more: nothing that is not a number may reach a trainer. The arrays must
   * not change until this resolves.
   * @throws RECORD_INVALID, MULTIPLE_TOKEN_CARRIERS or SCHEMA_TOO_NEW as `parseTokenEntry` does.
   */
  async put(entry: TokenEntry): Promise<void> {
    const { rollout_id: rolloutId, model_call_id: modelCallId } = entry;
    const epoch = this.#epochOf(rolloutId, modelCallId);
    await this.#write(
      { kind: "put", row: encodeEntry(parseTokenEntry(entry)), epoch },
      rolloutId,
      modelCallId,
    );
    this.#epochs.delete(callKey(rolloutId, modelCallId));
  }

  async endCall(rolloutId: string, modelCallId: string, outcome: CallOutcome): Promise<void> {
    const epoch = this.#epochOf(rolloutId, modelCallId);
    const operation: StoreOperation = { kind: "end", rolloutId, modelCallId, outcome, epoch };
    await this.#write(operation, rolloutId, modelCallId);
    this.#epochs.delete(callKey(rolloutId, modelCallId));
  }

  async markIncomplete(rolloutId: string, modelCallId?: string): Promise<void> {
    const call = modelCallId === undefined ? {} : { modelCallId };
    await this.#write({ kind: "mark", rolloutId, ...call }, rolloutId, modelCallId);
  }

  /** Leaves the writer open: whoever built it closes it. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#epochs.clear();
  }

  /** K1 */
  #epochOf(rolloutId: string, modelCallId: string): CallEpoch {
    return this.#epochs.get(callKey(rolloutId, modelCallId)) ?? null;
  }

  async #write(operation: StoreOperation, rolloutId: string, callId?: string): Promise<number> {
    if (this.#closed) throw new CaptureError("STORE_CLOSED", "The sink is closed.");
    const answer = await this.#writer.write(operation);
    if (answer.answer === "ok") return answer.epoch;
    // A refusal is final: no repetition of the call can be accepted, so its epoch is not needed any more.
    if (callId !== undefined) this.#epochs.delete(callKey(rolloutId, callId));
    const [code, why] = REFUSALS[answer.answer];
    const call = callId === undefined ? "" : `, call ${JSON.stringify(callId)}`;
    throw new CaptureError(
      code,
      `${operation.kind} was refused for rollout ${JSON.stringify(rolloutId)}${call}: ${why}.`,
    );
  }
}

function callKey(rolloutId: string, modelCallId: string): string {
  return JSON.stringify([rolloutId, modelCallId]);
}
