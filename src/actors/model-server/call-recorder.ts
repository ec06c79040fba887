/**
 * Writes one captured call: intent, then exactly one of record, end, or loss.
 *
 * C1. Nothing here throws and nothing here hangs: a capture failure never fails the model call.
 * C2. A call whose record is not acknowledged is lost: counted in the ledger, and marked in the sink as well as can be.
 * C3. The intent is on its way to the disk while the engine works; nothing ends before it is there, or known to be lost.
 *     An engine's work that no intent tells of was seen by nobody.
 */
import type { CallOutcome, TokenEntry, TokenSink } from "../../capture/index.js";
import { type Clock, withDeadline } from "./clock.js";
import type { Rollout } from "./rollouts.js";

/** The part of a logger that the server uses. */
export interface ServerLogger {
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

export interface RecorderServices {
  readonly sink: TokenSink;
  /** The sink keeps the order of a call's writes itself: a record need not wait for its intent's answer. */
  readonly ordersWrites: boolean;
  readonly putTimeoutMs: number;
  readonly clock: Clock;
  readonly logger: ServerLogger;
}

export class CallRecorder {
  readonly #services: RecorderServices;
  readonly #rollout: Rollout;
  readonly #callId: string;
  #begun: Promise<unknown> = Promise.resolve();
  #lost = false;

  constructor(services: RecorderServices, rollout: Rollout, callId: string) {
    this.#services = services;
    this.#rollout = rollout;
    this.#callId = callId;
  }

  /** Asks for the durable intent; `record` and `end` wait for it (C3). @param prompt int32[P], null if not known yet. */
  begin(prompt: Int32Array | null): void {
    this.#rollout.countStarted();
    const { sink } = this.#services;
    this.#begun = this.#write("beginCall", async () =>
      sink.beginCall?.(this.#rollout.id, this.#callId, prompt ?? undefined),
    );
  }

  /** `makeEntry` may throw: an entry that cannot be made is a lost one. @returns whether the record is durable. */
  async record(makeEntry: (rolloutId: string) => TokenEntry): Promise<boolean> {
    let entry: TokenEntry;
    try {
      entry = makeEntry(this.#rollout.id);
    } catch (error) {
      this.#lose("the record is invalid", error);
      await this.#begun;
      return false;
    }
    const { sink, ordersWrites } = this.#services;
    if (!ordersWrites) await this.#begun;
    const [written] = await Promise.all([this.#write("put", () => sink.put(entry)), this.#begun]);
    if (written) this.#rollout.countRecorded(this.#callId, entry.generation_token_ids.length);
    return written;
  }

  /** Closes the intent of a call that produced no trainable tokens. */
  async end(outcome: CallOutcome): Promise<void> {
    this.#rollout.countEnded(outcome);
    await this.#begun;
    const { sink } = this.#services;
    await this.#write("endCall", async () =>
      sink.endCall?.(this.#rollout.id, this.#callId, outcome),
    );
  }

  /** The call is answered, its record is not kept. The intent stays open: that too makes the rollout incomplete. */
  #lose(reason: string, error: unknown): void {
    const { sink, logger } = this.#services;
    const fields = { rolloutId: this.#rollout.id, modelCallId: this.#callId, reason, error };
    logger.error(fields, "the record of a model call is lost");
    if (this.#lost) return;
    this.#lost = true;
    this.#rollout.countCaptureLost();
    markIncomplete(sink, this.#rollout.id, this.#callId, logger);
  }

  async #write(what: string, write: () => Promise<void>): Promise<boolean> {
    const { putTimeoutMs, clock } = this.#services;
    try {
      // An adapter may throw before it returns a promise.
      const written = Promise.resolve().then(write);
      await withDeadline(written, `the sink's ${what}`, putTimeoutMs, clock);
      return true;
    } catch (error) {
      this.#lose(`${what} failed`, error); // C2
      return false;
    }
  }
}

/** Marks without waiting: the ledger tells of the loss even when the sink never answers. */
export function markIncomplete(
  sink: TokenSink,
  rolloutId: string,
  modelCallId: string | undefined,
  logger: ServerLogger,
): void {
  Promise.resolve()
    .then(() => sink.markIncomplete(rolloutId, modelCallId))
    .catch((error: unknown) =>
      logger.error({ rolloutId, modelCallId, error }, "a rollout could not be marked incomplete"),
    );
}
