/**
 * The caller's end of one lane: what was sent to one thread of an actor and has not been answered.
 *
 * C1. Every call that was sent is answered once by the actor, or handed back by `close`: none is forgotten.
 * C2. An answer the actor posted before its end counts, even when the news of its death overtook it.
 * C3. Whether a call had started is known after any death: its thread notes the id in shared memory first.
 */
import type { Gate, GateLane } from "./gate.js";
import type { OutgoingCall } from "./outgoing-call.js";
import { PortWire, type Wire } from "./port-wire.js";
import {
  type ActorDescriptor,
  type CallerLane,
  LANE_CELLS,
  PENDING,
  PENDING_CELLS,
  resourceOfGroup,
  type ToCallee,
  type ToCaller,
} from "./protocol.js";
import { Places } from "./shared-places.js";

/** What the actor says of a call. */
export type Answer = Exclude<ToCaller, readonly ["grant", number]>;

/** A call whose lane is gone. `started` is certain (C3). */
export interface UnansweredCall {
  readonly call: OutgoingCall;
  readonly started: boolean;
}

interface LaneEvents {
  onAnswer(call: OutgoingCall, answer: Answer): void;
  /** A waiting call may have a place of the resource. */
  onGrant(resource: number): void;
  onLost(): void;
}

export class Lane {
  readonly #actor: ActorDescriptor;
  readonly #cells: Int32Array;
  readonly #running: Int32Array;
  readonly #wire: Wire<ToCallee>;
  readonly #events: LaneEvents;
  readonly #inFlight = new Map<number, OutgoingCall>();
  #lastId = 0;
  #closed = false;

  constructor(actor: ActorDescriptor, ends: CallerLane, events: LaneEvents) {
    this.#actor = actor;
    this.#cells = ends.cells;
    this.#running = ends.running;
    this.#events = events;
    this.#wire = new PortWire<ToCallee, ToCaller>(ends.port, {
      onMessage: (message) => this.#onMessage(message),
      onLost: () => events.onLost(),
    });
  }

  /** @throws DataCloneError; the call was not sent then. */
  send(call: OutgoingCall): void {
    const { packed, transfer } = call.parcel;
    const id = ++this.#lastId;
    const message: ToCallee = ["call", id, call.method, packed.value, packed.specials, call.mode];
    if (call.flat) this.#wire.send(message);
    else this.#wire.sendAlone(message, transfer);
    call.id = id;
    call.stage = "sent";
    this.#inFlight.set(id, call);
    if (call.mode === "stream") this.credit(call, call.window);
  }

  cancel(call: OutgoingCall): void {
    this.#wire.send(["cancel", call.id]);
  }

  credit(call: OutgoingCall, items: number): void {
    this.#wire.send(["credit", call.id, items]);
  }

  /** Opens the gate of a group to this lane; returns the calls that may be sent now. */
  openGroup(group: number, gate: Gate<OutgoingCall>): OutgoingCall[] {
    const places = new Places(
      this.#actor.groupLimits[group] ?? 1,
      { cells: this.#running, at: group },
      { cells: this.#cells, at: LANE_CELLS.held + group },
    );
    const resource = resourceOfGroup(group);
    const lane = { ...this.#wanting(resource), freed: () => this.#wire.send(["freed", resource]) };
    return gate.open(lane, places);
  }

  /** Opens the gate of `maxPendingCalls`; returns the calls that are admitted now. */
  openAdmission(gate: Gate<OutgoingCall>): OutgoingCall[] {
    const { pending } = this.#actor;
    const freed = (): void => {
      if (Atomics.load(pending, PENDING_CELLS.waiting) > 0) this.#wire.send(["freed", PENDING]);
    };
    return gate.open({ ...this.#wanting(PENDING), freed });
  }

  /** Takes the answers that are here (C2) and returns what has none, in the order of sending. */
  close(): UnansweredCall[] {
    this.#closed = true;
    this.#wire.drain();
    this.#wire.close();
    const lastStarted = Atomics.load(this.#cells, LANE_CELLS.started);
    const rest = [...this.#inFlight.values()];
    this.#inFlight.clear();
    return rest.map((call) => ({ call, started: call.id <= lastStarted }));
  }

  #wanting(resource: number): Pick<GateLane, "want"> {
    return { want: () => this.#wire.send(["want", resource]) };
  }

  #onMessage(message: ToCaller): void {
    if (message[0] === "grant") {
      if (!this.#closed) this.#events.onGrant(message[1]);
      return;
    }
    const call = this.#inFlight.get(message[1]);
    if (call === undefined) return;
    if (message[0] !== "item") this.#inFlight.delete(message[1]);
    this.#events.onAnswer(call, message);
  }
}
