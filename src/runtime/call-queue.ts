/**
 * The calls of one thread to one actor, in the stages a call goes through: admitted below `maxPendingCalls`, placed
 * below its group's limit, sent, answered. It keeps the order and the counts; what an end means is the business of
 * the `Connection`.
 *
 * K1. Calls to one group start in the order they were made (R3). Never more than the group's limit are sent and
 *     unanswered, all callers together; the rest wait here, where the actor's death cannot lose them.
 * K2. A call that waits keeps the arguments it was made with, whatever the caller does to them later.
 */
import { Gate } from "./gate.js";
import { type Answer, Lane, type UnansweredCall } from "./lane.js";
import type { OutgoingCall } from "./outgoing-call.js";
import { type ActorDescriptor, type CallerLane, PENDING, PENDING_CELLS } from "./protocol.js";
import { Places } from "./shared-places.js";

interface QueueEvents {
  onAnswer(call: OutgoingCall, answer: Answer): void;
  /** The arguments cannot be cloned; the call was not sent and is out of the queue. */
  onUncloneable(call: OutgoingCall, error: unknown): void;
  /** The lane closed. */
  onLost(): void;
}

export class CallQueue {
  readonly #actor: ActorDescriptor;
  readonly #events: QueueEvents;
  readonly #admission: Gate<OutgoingCall>;
  readonly #groups: readonly Gate<OutgoingCall>[];
  #lane: Lane | undefined;
  /** Calls the actor is not done with. */
  #open = 0;
  #whenIdle: (() => void)[] = [];

  /** @param held One cell, shared with the main thread: the pending calls of this thread. */
  constructor(actor: ActorDescriptor, held: Int32Array, events: QueueEvents) {
    this.#actor = actor;
    this.#events = events;
    const taken = { cells: actor.pending, at: PENDING_CELLS.taken };
    this.#admission = new Gate(new Places(actor.maxPendingCalls, taken, { cells: held, at: 0 }));
    this.#groups = actor.groupLimits.map(() => new Gate<OutgoingCall>());
  }

  /** @returns false when the limit of pending calls refuses it. */
  enter(call: OutgoingCall): boolean {
    const admitted = this.#admission.tryPass();
    if (!admitted && this.#actor.onFull === "reject") return false;
    this.#open += 1;
    call.stage = "admission";
    if (admitted || this.#admission.enter(call)) this.#admit(call);
    else this.#keep(call);
    return true;
  }

  /** Takes out a call that was not sent. @returns false when it was. */
  leave(call: OutgoingCall): boolean {
    const { stage } = call;
    if (stage !== "admission" && stage !== "group") return false;
    if (stage === "admission") this.#admission.leave(call);
    else this.#groups[call.group]?.leave(call);
    this.#end(call);
    return true;
  }

  /** Tells the actor that nobody waits for a call that was sent. */
  cancel(call: OutgoingCall): void {
    if (call.stage === "sent") this.#lane?.cancel(call);
  }

  /** Allows the actor so many more items of a stream. */
  credit(call: OutgoingCall, items: number): void {
    if (call.stage === "sent") this.#lane?.credit(call, items);
  }

  connect(ends: CallerLane): void {
    const lane = new Lane(this.#actor, ends, {
      onAnswer: (call, answer) => {
        if (answer[0] !== "item") this.#end(call);
        this.#events.onAnswer(call, answer);
      },
      onGrant: (resource) => this.#onGrant(resource),
      onLost: () => {
        if (this.#lane === lane) this.#events.onLost();
      },
    });
    this.#lane = lane;
    this.#groups.forEach((gate, group) => {
      for (const call of lane.openGroup(group, gate)) this.#send(call);
    });
    for (const call of lane.openAdmission(this.#admission)) this.#admit(call);
  }

  /** The lane is gone. Calls that `again` is true of wait again, before all others; returns the others. */
  suspend(again: (unanswered: UnansweredCall) => boolean): UnansweredCall[] {
    const retried: OutgoingCall[][] = this.#groups.map(() => []);
    const lost = this.#closeLane().filter((unanswered) => {
      if (!again(unanswered)) return true;
      unanswered.call.stage = "group";
      retried[unanswered.call.group]?.push(unanswered.call);
      return false;
    });
    this.#groups.forEach((gate, group) => {
      gate.close(retried[group]);
    });
    this.#admission.close();
    for (const { call } of lost) this.#end(call);
    return lost;
  }

  /** Nothing will be sent any more: returns every call that is here, those that were sent first. */
  takeAll(): UnansweredCall[] {
    const sent = this.suspend(() => false);
    const waiting = [...this.#groups, this.#admission].flatMap((gate) => gate.takeAll());
    for (const call of waiting) this.#end(call);
    return [...sent, ...waiting.map((call) => ({ call, started: false }))];
  }

  /** Resolves when the actor is done with all calls, or at the deadline. */
  async whenIdle(deadlineMs: number): Promise<void> {
    if (this.#open === 0) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, deadlineMs);
      this.#whenIdle.push(() => {
        clearTimeout(timer);
        resolve();
      });
    });
  }

  #admit(call: OutgoingCall): void {
    call.stage = "group";
    if (this.#groups[call.group]?.enter(call) === true) this.#send(call);
    else this.#keep(call);
  }

  #send(call: OutgoingCall): void {
    try {
      // What may be sent again must be what was sent first.
      if (call.retriesLeft > 0) call.keep();
      this.#lane?.send(call);
    } catch (error) {
      this.#groups[call.group]?.giveBack();
      this.#end(call);
      this.#events.onUncloneable(call, error);
    }
  }

  /** K2: what is sent now is cloned by the port; what waits is cloned now. */
  #keep(call: OutgoingCall): void {
    try {
      call.keep();
    } catch (error) {
      this.leave(call);
      this.#events.onUncloneable(call, error);
    }
  }

  #onGrant(resource: number): void {
    if (resource === PENDING) {
      const call = this.#admission.granted();
      if (call !== undefined) this.#admit(call);
      return;
    }
    const call = this.#groups[resource - 1]?.granted();
    if (call !== undefined) this.#send(call);
  }

  #closeLane(): UnansweredCall[] {
    const lane = this.#lane;
    this.#lane = undefined;
    return lane?.close() ?? [];
  }

  #end(call: OutgoingCall): void {
    const admitted = call.stage !== "admission";
    call.stage = "ended";
    clearTimeout(call.killTimer);
    if (admitted) this.#admission.giveBack();
    this.#open -= 1;
    if (this.#open > 0) return;
    for (const tell of this.#whenIdle.splice(0)) tell();
  }
}
