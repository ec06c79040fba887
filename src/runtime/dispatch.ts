/**
 * The actor's side of its calls: finds the method, runs it in its turn, and answers with whatever comes of it.
 *
 * A1. Never more calls of a group run than its limit, whoever sent them, in the order they arrived.
 * A2. Only methods of the actor's class (and function fields) can be called; no name that `Object` has.
 * A3. The name of a method and the id of its call are in shared memory before it starts, so a sudden death cannot
 *     hide them.
 * A4. After `close` no call starts; its caller is answered by the actor's death.
 */
import { Arbiter } from "./arbiter.js";
import { runWithSignal } from "./call-context.js";
import { CalleeLane, type IncomingCall } from "./callee-lane.js";
import type { ValueCodec } from "./connection.js";
import { ActorError, labelText } from "./errors.js";
import { Fifo } from "./fifo.js";
import { writeLastMethod } from "./last-method.js";
import {
  type ActorLane,
  type ActorStart,
  type CallSpan,
  PENDING,
  resourceOfGroup,
} from "./protocol.js";
import { isStreamSource } from "./stream-writer.js";

type Method = (...args: unknown[]) => unknown;

export class Dispatcher {
  readonly #actor: object;
  readonly #start: ActorStart;
  readonly #codec: ValueCodec;
  readonly #onSpan: ((span: CallSpan) => void) | undefined;
  readonly #arbiter: Arbiter;
  /** Calls of each group that run, and those that arrived over its limit. */
  readonly #running: number[];
  readonly #waiting: readonly Fifo<IncomingCall>[];
  #open = 0;
  #closed: (() => void) | undefined;

  /** @param onSpan Called with the times of each call that ended; leave it out to take no times. */
  constructor(
    actor: object,
    start: ActorStart,
    codec: ValueCodec,
    onSpan?: (span: CallSpan) => void,
  ) {
    const { groupLimits, pending } = start.actor;
    this.#actor = actor;
    this.#start = start;
    this.#codec = codec;
    this.#onSpan = onSpan;
    this.#arbiter = new Arbiter(resourceOfGroup(groupLimits.length), pending);
    this.#running = groupLimits.map(() => 0);
    this.#waiting = groupLimits.map(() => new Fifo<IncomingCall>());
  }

  /** Answers the calls that come through a lane. */
  serve(lane: ActorLane): void {
    new CalleeLane(lane, this.#start, {
      arbiter: this.#arbiter,
      codec: this.#codec,
      onCall: (call) => this.#onCall(call),
    });
  }

  /** The main thread gave back the pending calls of a caller that is gone. */
  onPlacesFreed(): void {
    this.#arbiter.serve(PENDING);
  }

  /** Starts nothing new and resolves when the calls that were accepted have ended. */
  async close(): Promise<void> {
    const idle = new Promise<void>((resolve) => {
      this.#closed = resolve;
    });
    if (this.#open > 0) await idle;
  }

  #onCall(call: IncomingCall): void {
    // A4: unanswered on purpose; the caller's lane answers when this thread is gone.
    if (this.#closed !== undefined) return;
    this.#open += 1;
    if (this.#isFull(call.group)) this.#waiting[call.group]?.push(call);
    else this.#run(call);
  }

  #isFull(group: number): boolean {
    return (this.#running[group] ?? 0) >= (this.#start.actor.groupLimits[group] ?? 1);
  }

  #run(call: IncomingCall): void {
    this.#count(call.group, 1);
    const end = this.#ending(call);
    const fail = (thrown: unknown): void => {
      call.lane.fail(call, thrown);
      end(true);
    };
    const answer = (value: unknown): void => {
      call.lane.answer(call, value);
      end(false);
    };
    try {
      const { control } = call;
      const result =
        control === undefined
          ? this.#invoke(call)
          : runWithSignal(control.signal, () => this.#invoke(call));
      if (isThenable(result)) void result.then(answer, fail);
      else answer(result);
    } catch (error) {
      fail(error);
    }
  }

  #invoke(call: IncomingCall): unknown {
    const method = this.#methodNamed(call.method);
    writeLastMethod(this.#start.lastMethod, call.method);
    call.lane.markStarted(call.id);
    const args = this.#codec.unpack(call.args) as unknown[];
    const result = method.apply(this.#actor, args);
    return call.stream === undefined ? result : this.#pump(call, result);
  }

  async #pump(call: IncomingCall, result: unknown): Promise<void> {
    const source = await result;
    if (!isStreamSource(source))
      throw new TypeError(
        `${labelText(this.#start.actor)}, ${call.method}: a stream needs an (async) iterable; it returned ${typeof source}`,
      );
    await call.stream?.pump(source);
  }

  #ending(call: IncomingCall): (failed: boolean) => void {
    const onSpan = this.#onSpan;
    if (onSpan === undefined) return () => this.#end(call.group);
    const startMs = performance.timeOrigin + performance.now();
    return (failed) => {
      onSpan([call.method, startMs, performance.timeOrigin + performance.now(), failed]);
      this.#end(call.group);
    };
  }

  #end(group: number): void {
    this.#count(group, -1);
    this.#open -= 1;
    if (!this.#arbiter.pass(resourceOfGroup(group))) Atomics.sub(this.#start.running, group, 1);
    const next = this.#isFull(group) ? undefined : this.#waiting[group]?.shift();
    if (next !== undefined) this.#run(next);
    if (this.#open === 0) this.#closed?.();
  }

  #count(group: number, change: number): void {
    this.#running[group] = (this.#running[group] ?? 0) + change;
  }

  #methodNamed(method: string): Method {
    const value = method in Object.prototype ? undefined : Reflect.get(this.#actor, method);
    if (typeof value === "function") return value as Method;
    throw new ActorError(
      "METHOD_NOT_FOUND",
      `${labelText(this.#start.actor)} has no method ${JSON.stringify(method)}`,
    );
  }
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return (
    typeof value === "object" &&
    value !== null &&
    typeof (value as { then?: unknown }).then === "function"
  );
}
