/**
 * The actor's side of a call: finds the method, runs it in its turn, and turns whatever comes of it into an
 * `Outcome`. Comlink sees no exception and no handle, so its global transfer handlers stay as they are.
 *
 * A1. Never more than `maxConcurrency` calls run, whoever sent them, in the order they arrived.
 * A2. Only methods of the actor's class (and function fields) can be called; no name that `Object` has.
 * A3. The name of a method is in shared memory before it starts, so a sudden death cannot hide it.
 * A4. After `close` no call starts; its caller is answered by the actor's death.
 */
import type { MessagePort } from "node:worker_threads";
import { expose } from "comlink";
import type { ValueCodec } from "./connection.js";
import { ActorEndpoint } from "./endpoint.js";
import { encodeThrown } from "./error-wire.js";
import { ActorError, labelText } from "./errors.js";
import { writeLastMethod } from "./last-method.js";
import { Mailbox } from "./mailbox.js";
import type { ActorStart, Invocation, InvocationTarget, Outcome } from "./protocol.js";
import { UncloneableError } from "./wire-value.js";

export class Dispatcher implements InvocationTarget {
  readonly #actor: object;
  readonly #start: ActorStart;
  readonly #codec: ValueCodec;
  readonly #mailbox: Mailbox;
  #closed = false;

  constructor(actor: object, start: ActorStart, codec: ValueCodec) {
    this.#actor = actor;
    this.#start = start;
    this.#codec = codec;
    this.#mailbox = new Mailbox(start.actor.maxConcurrency);
  }

  /** Answers the calls that come through `port`. */
  serve(port: MessagePort): void {
    expose(
      { invoke: (invocation: Invocation) => this.invoke(invocation) },
      new ActorEndpoint(port),
    );
  }

  invoke(invocation: Invocation): Promise<Outcome> {
    // A4: left open on purpose; the caller's endpoint answers when this thread is gone.
    if (this.#closed) return new Promise(() => {});
    return this.#mailbox.run(() => this.#execute(invocation));
  }

  /** Starts nothing new and resolves when the calls that were accepted have ended. */
  close(): Promise<void> {
    this.#closed = true;
    return this.#mailbox.whenIdle();
  }

  async #execute({ method, args }: Invocation): Promise<Outcome> {
    try {
      const run = this.#methodNamed(method);
      writeLastMethod(this.#start.lastMethod, method);
      const result: unknown = await run.apply(this.#actor, this.#codec.unpack(args) as unknown[]);
      return { kind: "value", value: this.#codec.pack(result) };
    } catch (error) {
      if (error instanceof UncloneableError)
        return { kind: "not-cloneable", what: `result ${error.message}` };
      return { kind: "error", error: encodeThrown(error) };
    }
  }

  #methodNamed(method: string): (...args: unknown[]) => unknown {
    const value = method in Object.prototype ? undefined : Reflect.get(this.#actor, method);
    if (typeof value === "function") return value as (...args: unknown[]) => unknown;
    throw new ActorError(
      "METHOD_NOT_FOUND",
      `${labelText(this.#start.actor)} has no method ${JSON.stringify(method)}`,
    );
  }
}
