/**
 * The rollouts this worker was told of: who may call, how much, and what became of every call.
 *
 * In memory only. The ledger is the count that a store cannot falsify: it must equal the snapshot of the store.
 *
 * L1. A rollout takes calls from `open` to `seal`; nothing else opens it.
 * L2. A call that reached its intent is counted as recorded, failed, aborted or lost; a write of it that was not
 *     acknowledged counts as lost whatever else it is.
 * L3. `seal` returns only when no call of the rollout is running.
 * L4. Memory is bounded: of sealed rollouts the last `MAX_SEALED` are known, older ones only in the totals. A forgotten
 *     rollout takes no calls, and its ledger, asked again, is empty: a mismatch masks.
 */
import type { Compaction } from "../../capture/index.js";
import type { RolloutLedger } from "../rollout.js";
import { RequestError } from "./request-error.js";
import { rolloutKey } from "./rollout-key.js";

export interface RolloutOpening {
  readonly rolloutId: string;
  /** Moves with every re-dispatch; a key is valid for one epoch. */
  readonly epoch: number;
  /** Token capture was selected for this rollout's agent. */
  readonly captured: boolean;
}

/** What a worker answers to an opening. */
export interface OpenedRollout {
  /** Of the weights that the worker holds. */
  readonly policyVersion: number;
  /** Of an update that it was told of and that is not committed. */
  readonly nextPolicyVersion: number | null;
}

export interface CallLimits {
  readonly maxInFlight: number;
  readonly maxModelCalls: number;
}

/** One admitted call. */
export interface AdmittedCall {
  readonly signal: AbortSignal;
  abort(reason: Error): void;
  /** Contract: called once, when the call has its outcome. */
  release(): void;
}

/** A history begins with the summary of one; an attempt that failed is repeated. */
const MAX_COMPACTIONS = 4;

/** One rollout of one epoch. */
export class Rollout {
  readonly id: string;
  readonly epoch: number;
  readonly captured: boolean;
  readonly #limits: CallLimits;
  readonly #running = new Set<AdmittedCall>();
  readonly #recorded: string[] = [];
  readonly #undelivered: string[] = [];
  readonly #compactions: Compaction[] = [];
  #sealed = false;
  #admitted = 0;
  #started = 0;
  #failed = 0;
  #aborted = 0;
  #captureLost = 0;
  #tokensRecorded = 0;
  readonly #onIdle: (() => void)[] = [];
  #key: string | undefined;

  /** The ledger of a rollout that never called this worker. */
  static emptyLedger(workerIndex: number, workerGeneration: number): RolloutLedger {
    const none = { started: 0, recordedCallIds: [], failed: 0, aborted: 0, captureLost: 0 };
    return { ...none, workerIndex, workerGeneration };
  }

  constructor(opening: RolloutOpening, limits: CallLimits) {
    this.id = opening.rolloutId;
    this.epoch = opening.epoch;
    this.captured = opening.captured;
    this.#limits = limits;
  }

  /** The API key of this epoch, made once: every call presents it. */
  key(secret: Uint8Array): string {
    this.#key ??= rolloutKey(secret, this.id, this.epoch);
    return this.#key;
  }

  /** The latest compaction calls that were recorded here. */
  get compactions(): readonly Compaction[] {
    return this.#compactions;
  }

  get isSealed(): boolean {
    return this.#sealed;
  }

  get tokensRecorded(): number {
    return this.#tokensRecorded;
  }

  /** @throws RequestError 403 after seal, 400 at a limit. */
  admit(): AdmittedCall {
    if (this.#sealed) throw new RequestError(403, `rollout ${this.id} is sealed`); // L1
    const { maxInFlight, maxModelCalls } = this.#limits;
    if (this.#running.size >= maxInFlight)
      throw new RequestError(
        400,
        `rollout ${this.id} has ${maxInFlight} calls in flight (limit maxInFlight)`,
      );
    if (this.#admitted >= maxModelCalls)
      throw new RequestError(
        400,
        `rollout ${this.id} has made ${maxModelCalls} model calls (limit max_model_calls)`,
      );
    this.#admitted += 1;
    return this.#track();
  }

  countStarted(): void {
    this.#started += 1;
  }

  countRecorded(modelCallId: string, generatedTokens: number): void {
    this.#recorded.push(modelCallId);
    this.#tokensRecorded += generatedTokens;
  }

  /** A recorded call whose client went away before it had the whole answer. */
  countUndelivered(modelCallId: string): void {
    this.#undelivered.push(modelCallId);
  }

  /** Contract: called when the compaction call was recorded, and before its answer is sent. */
  noteCompaction(call: Omit<Compaction, "earlierCallIds">): void {
    this.#compactions.push({ ...call, earlierCallIds: new Set(this.#recorded) });
    if (this.#compactions.length > MAX_COMPACTIONS) this.#compactions.shift();
  }

  countEnded(outcome: "failed" | "aborted"): void {
    if (outcome === "failed") this.#failed += 1;
    else this.#aborted += 1;
  }

  countCaptureLost(): void {
    this.#captureLost += 1;
  }

  seal(): void {
    this.#sealed = true;
  }

  abortRunning(reason: Error): void {
    for (const call of this.#running) call.abort(reason);
  }

  /** Resolves when no call is running. */
  idle(): Promise<void> {
    if (this.#running.size === 0) return Promise.resolve();
    return new Promise((resolve) => this.#onIdle.push(resolve));
  }

  ledger(workerIndex: number, workerGeneration: number): RolloutLedger {
    return {
      started: this.#started,
      recordedCallIds: [...this.#recorded],
      ...(this.#undelivered.length > 0 ? { undeliveredCallIds: [...this.#undelivered] } : {}),
      failed: this.#failed,
      aborted: this.#aborted,
      captureLost: this.#captureLost,
      workerIndex,
      workerGeneration,
    };
  }

  #track(): AdmittedCall {
    const controller = new AbortController();
    const call: AdmittedCall = {
      signal: controller.signal,
      abort: (reason) => controller.abort(reason),
      release: () => {
        this.#running.delete(call);
        if (this.#running.size === 0) for (const resolve of this.#onIdle.splice(0)) resolve();
      },
    };
    this.#running.add(call);
    return call;
  }
}

/** More than rollouts end while one delivery is on its way. */
const MAX_SEALED = 1024;

/** All rollouts of a worker. */
export class Rollouts {
  readonly #limits: CallLimits;
  readonly #rollouts = new Map<string, Rollout>();
  /** In the order of their seals. */
  readonly #sealed = new Set<Rollout>();
  #forgottenTokens = 0;

  constructor(limits: CallLimits) {
    this.#limits = limits;
  }

  /**
   * @throws RangeError when the rollout is open already, or was, in this epoch or a later one.
   */
  open(opening: RolloutOpening): void {
    const known = this.#rollouts.get(opening.rolloutId);
    if (known !== undefined && known.epoch >= opening.epoch)
      throw Object.assign(
        new RangeError(
          `rollout ${opening.rolloutId} was opened in epoch ${known.epoch}; epoch ${opening.epoch} cannot open it`,
        ),
        { code: "ROLLOUT_EXISTS" },
      );
    known?.seal();
    known?.abortRunning(new RequestError(403, `rollout ${opening.rolloutId} was dispatched again`));
    if (known !== undefined) this.#forgottenTokens += known.tokensRecorded;
    this.#rollouts.set(opening.rolloutId, new Rollout(opening, this.#limits));
  }

  /** L4. Idempotent. */
  seal(rollout: Rollout): void {
    rollout.seal();
    this.#sealed.add(rollout);
    for (const oldest of this.#sealed) {
      if (this.#sealed.size <= MAX_SEALED) return;
      this.#sealed.delete(oldest);
      if (this.#rollouts.get(oldest.id) !== oldest) continue;
      this.#rollouts.delete(oldest.id);
      this.#forgottenTokens += oldest.tokensRecorded;
    }
  }

  totals(): { tokensRecorded: number; openRollouts: number } {
    let tokensRecorded = this.#forgottenTokens;
    let openRollouts = 0;
    for (const rollout of this.#rollouts.values()) {
      tokensRecorded += rollout.tokensRecorded;
      if (!rollout.isSealed) openRollouts += 1;
    }
    return { tokensRecorded, openRollouts };
  }

  get(rolloutId: string): Rollout | undefined {
    return this.#rollouts.get(rolloutId);
  }

  all(): Iterable<Rollout> {
    return this.#rollouts.values();
  }
}
