/**
 * One thread's connection to one actor. All handles of the actor in this thread share it, so their calls keep one
 * order. It outlives the actor's threads: over a restart it gets a new lane.
 *
 * K3. After the actor's last death every pending and every later call rejects with `ActorDiedError` and the one
 *     report (R1). When the lane closes and no news comes, it is waited for at most `newsWaitMs`.
 * K4. Over a restart what waits stays in order and goes to the new thread; what was sent rejects, or waits again
 *     before all others if its method is idempotent and it has retries left (R4).
 * K5. A call given up while it waits never starts; one that was sent is told to the actor (R5).
 */
import { CallQueue } from "./call-queue.js";
import { watchFor } from "./call-watch.js";
import { decodeThrown } from "./error-wire.js";
import {
  ActorDiedError,
  type DeathReport,
  PendingCallsLimitError,
  SerializationError,
} from "./errors.js";
import type { Answer, UnansweredCall } from "./lane.js";
import { type CallOptions, type CallSettler, OutgoingCall, snapshot } from "./outgoing-call.js";
import { type ActorDescriptor, type CallerLane, type CallMode, PENDING_CELLS } from "./protocol.js";
import { isPrimitive, type PackedValue, type Parcel, UncloneableError } from "./wire-value.js";

/** Packs and unpacks values that may hold handles and errors. */
export interface ValueCodec {
  /** @throws UncloneableError naming the path. */
  pack(value: unknown): Parcel;
  unpack(packed: PackedValue): unknown;
}

/** What a connection needs of its thread. */
export interface ConnectionOwner extends ValueCodec {
  /** Ends the actor's thread; it is restarted as after a crash. */
  crashActor(actorId: string): void;
}

/** Arguments that were checked and packed. */
export interface PackedArgs {
  readonly parcel: Parcel;
  readonly flat: boolean;
}

const NEWS_WAIT_MS = 2000;
const DEFAULT_WINDOW = 16;
const NOTHING_MOVED: readonly ArrayBuffer[] = [];

export class Connection {
  readonly actor: ActorDescriptor;
  /** Resolves with the report when the actor is dead for good; never rejects. */
  readonly dead: Promise<DeathReport>;
  readonly #owner: ConnectionOwner;
  readonly #queue: CallQueue;
  readonly #newsWaitMs: number;
  #resolveDead: (report: DeathReport) => void = () => {};
  #report: DeathReport | undefined;
  #lost: NodeJS.Timeout | undefined;
  #restarting = false;
  #stopping = false;

  /** @param held One cell, shared with the main thread: the pending calls of this connection. */
  constructor(
    actor: ActorDescriptor,
    held: Int32Array,
    owner: ConnectionOwner,
    newsWaitMs = NEWS_WAIT_MS,
  ) {
    this.actor = actor;
    this.#owner = owner;
    this.#newsWaitMs = newsWaitMs;
    this.#queue = new CallQueue(actor, held, {
      onAnswer: (call, answer) => this.#onAnswer(call, answer),
      onUncloneable: (call, error) => call.reject(this.#notCloneable(call.method, error)),
      onLost: () => this.#onLost(),
    });
    this.dead = new Promise((resolve) => {
      this.#resolveDead = resolve;
    });
  }

  get state(): "ALIVE" | "RESTARTING" | "DEAD" {
    if (this.#report !== undefined) return "DEAD";
    return this.#restarting ? "RESTARTING" : "ALIVE";
  }

  /** Calls that are made and not ended, of all holders. */
  get pendingCalls(): number {
    return Atomics.load(this.actor.pending, PENDING_CELLS.taken);
  }

  call(method: string, args: unknown[], options?: CallOptions): Promise<unknown> {
    return new Promise((resolve, reject) => {
      this.submit("plain", method, this.pack(method, args), options, { resolve, reject });
    });
  }

  /** Makes a call whose arguments were packed by `pack`. */
  submit(
    mode: CallMode,
    method: string,
    { parcel, flat }: PackedArgs,
    options: CallOptions | undefined,
    settler: CallSettler,
  ): OutgoingCall {
    const traits = this.actor.methods.get(method);
    const watch = watchFor(this.actor, options, (call, error) =>
      this.#giveUp(call, error, options?.killAfterMs),
    );
    const sentAs = mode === "plain" && watch !== undefined ? "cancellable" : mode;
    const call = new OutgoingCall(method, traits?.group ?? 0, sentAs, parcel, flat, settler);
    if (traits?.idempotent === true && mode !== "stream" && parcel.transfer.length === 0)
      call.retriesLeft = this.actor.maxTaskRetries;
    call.window = options?.window ?? DEFAULT_WINDOW;
    call.unwatch = watch?.(call);
    if (call.settled) return call;
    if (this.#report !== undefined) call.reject(this.#diedError(this.#report, call, false));
    else if (this.#stopping)
      void this.dead.then((report) => call.reject(this.#diedError(report, call, false)));
    else if (!this.#queue.enter(call))
      call.reject(new PendingCallsLimitError(this.actor, method, this.actor.maxPendingCalls));
    return call;
  }

  /** @throws NOT_CLONEABLE */
  pack(method: string, args: unknown[]): PackedArgs {
    if (args.every(isPrimitive))
      return { parcel: { packed: { value: args }, transfer: NOTHING_MOVED }, flat: true };
    try {
      return { parcel: this.#owner.pack(args), flat: false };
    } catch (error) {
      throw this.#notCloneable(method, error);
    }
  }

  /** As `pack`, and what the caller does to the arguments later does not matter. @throws NOT_CLONEABLE */
  packToKeep(method: string, args: unknown[]): PackedArgs {
    const { parcel, flat } = this.pack(method, args);
    try {
      return { parcel: flat ? parcel : snapshot(parcel), flat };
    } catch (error) {
      throw this.#notCloneable(method, error);
    }
  }

  credit(call: OutgoingCall, items: number): void {
    this.#queue.credit(call, items);
  }

  /** Ends a stream for its consumer: one that waits never starts; one that runs is told, and ends in its own time. */
  endStream(call: OutgoingCall): void {
    if (this.#queue.leave(call)) call.resolve(undefined);
    else this.#queue.cancel(call);
  }

  /** True when handles on this connection may be packed by `codec`. */
  belongsTo(codec: ValueCodec): boolean {
    return this.#owner === codec;
  }

  /** Takes no new calls from now on and resolves when those made before have ended, or at the deadline. */
  async drain(deadlineMs: number): Promise<void> {
    this.#stopping = true;
    await this.#queue.whenIdle(deadlineMs);
  }

  /** The actor is alive and serves this lane. */
  connect(ends: CallerLane): void {
    if (this.#report !== undefined) {
      ends.port.close();
      return;
    }
    clearTimeout(this.#lost);
    this.#restarting = false;
    this.#queue.connect(ends);
  }

  /** The actor's thread is dead, and another one will be started (K4). */
  restarting(report: DeathReport): void {
    clearTimeout(this.#lost);
    this.#restarting = true;
    const lost = this.#queue.suspend(({ call, started }) => {
      if (call.settled || call.retriesLeft === 0) return false;
      if (started) call.retriesLeft -= 1;
      return true;
    });
    this.#reject(lost, report);
  }

  /** The actor is dead for good, and this is why. The first report stays (K3). */
  died(report: DeathReport): void {
    if (this.#report !== undefined) return;
    this.#report = report;
    clearTimeout(this.#lost);
    this.#resolveDead(report);
    this.#reject(this.#queue.takeAll(), report);
  }

  #onAnswer(call: OutgoingCall, answer: Answer): void {
    switch (answer[0]) {
      case "value":
        call.resolve(this.#unpack(answer[2], answer[3]));
        return;
      case "item":
        call.item(this.#unpack(answer[2], answer[3]));
        return;
      case "error":
        call.reject(decodeThrown(answer[2]));
        return;
      case "not-cloneable":
        call.reject(new SerializationError(this.actor, call.method, answer[2]));
    }
  }

  #unpack(value: unknown, specials: PackedValue["specials"]): unknown {
    return specials === undefined ? value : this.#owner.unpack({ value, specials });
  }

  #giveUp(call: OutgoingCall, error: Error, killAfterMs: number | undefined): void {
    call.reject(error);
    if (call.stage === "new" || this.#queue.leave(call)) return;
    this.#queue.cancel(call);
    if (killAfterMs !== undefined)
      call.killTimer = setTimeout(() => this.#owner.crashActor(this.actor.id), killAfterMs);
  }

  #onLost(): void {
    if (this.#report !== undefined) return;
    clearTimeout(this.#lost);
    this.#lost = setTimeout(() => {
      const error = new Error(
        "The connection to the actor closed and no report of its death came.",
      );
      this.died({ cause: "exit", exitCode: null, error, lastLogs: [], uptimeMs: 0, restarts: 0 });
    }, this.#newsWaitMs);
  }

  #reject(calls: readonly UnansweredCall[], report: DeathReport): void {
    for (const { call, started } of calls) call.reject(this.#diedError(report, call, started));
  }

  #diedError(report: DeathReport, call: OutgoingCall, started: boolean): ActorDiedError {
    return new ActorDiedError(this.actor, report, started, call.method);
  }

  #notCloneable(method: string, error: unknown): unknown {
    if (!(error instanceof UncloneableError) && !(error instanceof DOMException)) return error;
    const what = `argument ${error.message}`;
    return new SerializationError(this.actor, method, what, { cause: error });
  }
}
