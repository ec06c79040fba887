/**
 * The actor's end of one lane: hears one caller's calls and answers them.
 *
 * A5. When the caller is gone, its places are given back and its calls are cancelled: nobody waits for them.
 */
import type { Arbiter, Claimant } from "./arbiter.js";
import type { ValueCodec } from "./connection.js";
import { encodeThrown } from "./error-wire.js";
import { PortWire, type Wire } from "./port-wire.js";
import {
  type ActorLane,
  type ActorStart,
  type CallMode,
  LANE_CELLS,
  PENDING_CELLS,
  resourceOfGroup,
  type ToCallee,
  type ToCaller,
} from "./protocol.js";
import { Places } from "./shared-places.js";
import { StreamWriter } from "./stream-writer.js";
import { isPrimitive, type PackedValue, UncloneableError } from "./wire-value.js";

/** A call as it arrived. */
export interface IncomingCall {
  readonly lane: CalleeLane;
  readonly id: number;
  readonly method: string;
  readonly args: PackedValue;
  readonly mode: CallMode;
  readonly group: number;
  /** Of all calls but plain ones. */
  readonly control?: AbortController;
  readonly stream?: StreamWriter;
}

interface LaneHost {
  readonly arbiter: Arbiter;
  readonly codec: ValueCodec;
  onCall(call: IncomingCall): void;
}

export class CalleeLane implements Claimant {
  readonly #host: LaneHost;
  readonly #start: ActorStart;
  readonly #cells: Int32Array;
  readonly #wire: Wire<ToCaller>;
  readonly #places: readonly Places[];
  /** Calls that can be cancelled, by id. */
  readonly #controlled = new Map<number, IncomingCall>();

  constructor(ends: ActorLane, start: ActorStart, host: LaneHost) {
    this.#host = host;
    this.#start = start;
    this.#cells = ends.cells;
    const { groupLimits, maxPendingCalls, pending } = start.actor;
    const taken = { cells: pending, at: PENDING_CELLS.taken };
    this.#places = [
      new Places(maxPendingCalls, taken, { cells: ends.held, at: 0 }),
      ...groupLimits.map(
        (limit, group) =>
          new Places(
            limit,
            { cells: start.running, at: group },
            { cells: ends.cells, at: LANE_CELLS.held + group },
          ),
      ),
    ];
    this.#wire = new PortWire<ToCaller, ToCallee>(ends.port, {
      onMessage: (message) => this.#onMessage(message),
      onLost: () => this.#onLost(),
    });
  }

  places(resource: number): Places {
    const places = this.#places[resource];
    if (places === undefined) throw new RangeError(`no resource ${resource}`);
    return places;
  }

  grant(resource: number): void {
    this.#wire.send(["grant", resource]);
  }

  /** Notes, for the time after a sudden death, that the call has started. */
  markStarted(id: number): void {
    if (id > Atomics.load(this.#cells, LANE_CELLS.started))
      Atomics.store(this.#cells, LANE_CELLS.started, id);
  }

  answer(call: IncomingCall, value: unknown): void {
    this.#controlled.delete(call.id);
    try {
      this.#send("value", call.id, value);
    } catch (error) {
      if (!isUncloneable(error)) throw error;
      this.#wire.send(["not-cloneable", call.id, `result ${error.message}`]);
    }
  }

  fail(call: IncomingCall, thrown: unknown): void {
    this.#controlled.delete(call.id);
    if (thrown instanceof UncloneableError)
      this.#wire.send(["not-cloneable", call.id, `stream item ${thrown.message}`]);
    else this.#wire.sendAlone(["error", call.id, encodeThrown(thrown)]);
  }

  #send(kind: "value" | "item", id: number, value: unknown): void {
    if (isPrimitive(value)) {
      this.#wire.send([kind, id, value, undefined]);
      return;
    }
    const { packed, transfer } = this.#host.codec.pack(value);
    this.#wire.sendAlone([kind, id, packed.value, packed.specials], transfer);
  }

  #sendItem(id: number, value: unknown): void {
    try {
      this.#send("item", id, value);
    } catch (error) {
      throw isUncloneable(error) ? new UncloneableError(error.message) : error;
    }
  }

  #onMessage(message: ToCallee): void {
    const { arbiter } = this.#host;
    switch (message[0]) {
      case "call":
        this.#onCall(message);
        return;
      case "cancel":
        this.#cancel(this.#controlled.get(message[1]));
        return;
      case "credit":
        this.#controlled.get(message[1])?.stream?.credit(message[2]);
        return;
      case "want":
        arbiter.want(this, message[1]);
        return;
      case "freed":
        arbiter.serve(message[1]);
    }
  }

  #onCall([, id, method, value, specials, mode]: Extract<
    ToCallee,
    readonly ["call", ...unknown[]]
  >): void {
    const group = this.#start.actor.methods.get(method)?.group ?? 0;
    // The place is the actor's from here on, whatever becomes of the caller.
    this.places(resourceOfGroup(group)).handOver();
    const args = specials === undefined ? { value } : { value, specials };
    const plain = { lane: this, id, method, args, mode, group };
    if (mode === "plain") {
      this.#host.onCall(plain);
      return;
    }
    const stream = new StreamWriter((item) => this.#sendItem(id, item));
    const call = { ...plain, control: new AbortController(), ...(mode === "stream" && { stream }) };
    this.#controlled.set(id, call);
    this.#host.onCall(call);
  }

  #cancel(call: IncomingCall | undefined): void {
    call?.control?.abort();
    call?.stream?.leave();
  }

  #onLost(): void {
    const { arbiter } = this.#host;
    arbiter.forget(this);
    this.#start.actor.groupLimits.forEach((_limit, group) => {
      this.places(resourceOfGroup(group)).giveBackAll();
      arbiter.serve(resourceOfGroup(group));
    });
    for (const call of this.#controlled.values()) this.#cancel(call);
  }
}

function isUncloneable(error: unknown): error is Error {
  return error instanceof UncloneableError || error instanceof DOMException;
}
