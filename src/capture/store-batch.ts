/**
 * A `RowWriter` that sends what one turn of the event loop brings as one message: the answers of a group commit come
 * together, so the next writes do too, and a message costs more than most of them.
 *
 * B1. The order of operations is kept.
 * B2. One that fails fails alone; when the message itself fails, all of it do.
 */
import type { RowWriter, StoreAnswer, StoreOperation, StoreOutcome } from "./store-protocol.js";

/** The far side: the capture-store actor. */
export interface BatchWriter {
  /** Contract: one outcome for each operation, in order; each durable before it resolves. */
  writeAll(operations: readonly StoreOperation[]): Promise<readonly StoreOutcome[]>;
}

interface Waiting {
  readonly operation: StoreOperation;
  readonly resolve: (answer: StoreAnswer) => void;
  readonly reject: (error: unknown) => void;
}

export class BatchedWriter implements RowWriter {
  readonly #target: BatchWriter;
  #waiting: Waiting[] = [];

  constructor(target: BatchWriter) {
    this.#target = target;
  }

  write(operation: StoreOperation): Promise<StoreAnswer> {
    return new Promise((resolve, reject) => {
      if (this.#waiting.push({ operation, resolve, reject }) > 1) return;
      setImmediate(() => void this.#send());
    });
  }

  async #send(): Promise<void> {
    const batch = this.#waiting;
    this.#waiting = [];
    try {
      const outcomes = await this.#target.writeAll(batch.map(({ operation }) => operation));
      batch.forEach(({ resolve, reject }, index) => {
        const outcome = outcomes[index];
        if (outcome === undefined) reject(new Error("the writer left an operation unanswered"));
        else if (outcome.answer === "failed") reject(outcome.error);
        else resolve(outcome);
      });
    } catch (error) {
      for (const { reject } of batch) reject(error); // B2
    }
  }
}
