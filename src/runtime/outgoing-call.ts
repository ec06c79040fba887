/** One call on the caller's side, from the moment it is made until the actor is done with it. */
import type { CallPhase } from "./errors.js";
import type { CallMode } from "./protocol.js";
import type { Parcel } from "./wire-value.js";

/** What `ActorRef.with` takes. Each holds for every call made through the handle it returns. */
export interface CallOptions {
  /** Cancels the call: one that waits never starts, a running one sees it in `ctx.signal`. */
  readonly signal?: AbortSignal;
  /** Time from the call to its end, queue included, in ms. Default: no limit. */
  readonly timeoutMs?: number;
  /**
   * Time in ms that a running call has to end after it was cancelled or timed out; then the actor's thread is ended,
   * and restarted as after a crash. Default: it may run on.
   */
  readonly killAfterMs?: number;
  /** Stream items that may be under way before the consumer takes them, 1 to 65 536. Default 16. */
  readonly window?: number;
}

/** `admission`: over `maxPendingCalls`; `group`: waits for a place; `ended`: the actor is done with it. */
type Stage = "new" | "admission" | "group" | "sent" | "ended";

/** How a call ends for its caller. */
export interface CallSettler {
  resolve(value: unknown): void;
  reject(reason: unknown): void;
  /** Streams only. */
  item?(value: unknown): void;
}

export class OutgoingCall {
  readonly method: string;
  readonly group: number;
  readonly mode: CallMode;
  stage: Stage = "new";
  /** Within its lane; 0 before it is sent. */
  id = 0;
  parcel: Parcel;
  /** The arguments are only primitives: nobody can change them, and they need no message of their own. */
  readonly flat: boolean;
  /** The parcel is a snapshot. */
  kept = false;
  retriesLeft = 0;
  /** Streams only: see `CallOptions.window`. */
  window = 0;
  /** The caller has its answer; the actor may still be at work. */
  settled = false;
  /** Forgets signals and timers. */
  unwatch: (() => void) | undefined;
  killTimer: NodeJS.Timeout | undefined;
  readonly #settler: CallSettler;

  constructor(
    method: string,
    group: number,
    mode: CallMode,
    parcel: Parcel,
    flat: boolean,
    settler: CallSettler,
  ) {
    this.method = method;
    this.group = group;
    this.mode = mode;
    this.parcel = parcel;
    this.flat = flat;
    this.#settler = settler;
  }

  get phase(): CallPhase {
    return this.stage === "sent" ? "running" : "queued";
  }

  /** Takes a snapshot of the arguments, moved buffers included. @throws DataCloneError */
  keep(): void {
    if (this.kept || this.flat) return;
    this.parcel = snapshot(this.parcel);
    this.kept = true;
  }

  resolve(value: unknown): void {
    if (this.#settle()) this.#settler.resolve(value);
  }

  reject(reason: unknown): void {
    if (this.#settle()) this.#settler.reject(reason);
  }

  item(value: unknown): void {
    if (!this.settled) this.#settler.item?.(value);
  }

  #settle(): boolean {
    if (this.settled) return false;
    this.settled = true;
    this.unwatch?.();
    return true;
  }
}

/** A copy that nobody else changes; moved buffers are taken over. @throws DataCloneError */
export function snapshot({ packed, transfer }: Parcel): Parcel {
  return structuredClone({ packed, transfer }, { transfer: [...transfer] });
}
