/**
 * A handle of an actor. It is a view on this thread's connection, so it costs nothing to copy and may be sent, in
 * plain objects and arrays, to any other actor. Call options stay behind.
 */
import type { ActorMethods, ActorStreams } from "./actor-types.js";
import type { Connection } from "./connection.js";
import type { DeathReport } from "./errors.js";
import { checkDurationMs, resolveCallOptions } from "./options.js";
import type { CallOptions } from "./outgoing-call.js";
import { StreamReader } from "./stream-reader.js";

/** A handle of a running actor of class `A`. It may be part of an argument, a result or a spawn option. */
export interface ActorRef<A> extends AsyncDisposable {
  readonly id: string;
  readonly name: string | undefined;
  /** As far as this thread has heard. */
  readonly state: "ALIVE" | "RESTARTING" | "DEAD";
  /** Calls of all holders that are made and not ended. */
  readonly pendingCalls: number;
  /**
   * The actor's methods. Arguments and results are structured clones. Calls made by one thread to one concurrency
   * group start in order.
   *
   * @throws ACTOR_DIED when the actor is dead, or dies before it answers. While it restarts, calls wait.
   * @throws NOT_CLONEABLE when an argument or the result cannot cross a thread; only that call fails.
   * @throws METHOD_NOT_FOUND when the actor has no such method.
   * @throws PENDING_CALLS_LIMIT when the actor is full and `onFull` is `reject`.
   * @throws CALL_TIMEOUT, CALL_CANCELLED by the options given to `with`, or with the call this one was made in.
   */
  readonly call: ActorMethods<A>;
  /** The actor's generator methods; errors as of `call`. Leaving the loop runs the generator's `finally` first. */
  readonly stream: ActorStreams<A>;
  /** A handle of the same actor whose calls have these options, over those of this one. */
  with(options: CallOptions): ActorRef<A>;
  /**
   * Ends the actor in order: this thread's calls and the running ones end, the stop hook runs, the thread exits.
   * At the deadline the thread is ended (cause `killed`).
   *
   * @param options.deadlineMs Default 10 000.
   */
  stop(options?: { readonly deadlineMs?: number }): Promise<DeathReport>;
  /**
   * Ends the thread at once. A thread inside a native call ends when that returns.
   *
   * @param options.restart As after a crash: the actor is restarted if it has restarts left. Default false.
   * @returns The report of the actor's last death; after a restart it comes with that one's.
   */
  kill(options?: { readonly restart?: boolean }): Promise<DeathReport>;
}

/** What a handle needs of its thread to end an actor. */
export interface ActorEnder {
  stopActor(actorId: string, deadlineMs: number): void;
  killActor(actorId: string, restart: boolean): void;
}

const DEFAULT_STOP_DEADLINE_MS = 10_000;

export class ActorHandle<A> implements ActorRef<A> {
  readonly #connection: Connection;
  readonly #ender: ActorEnder;
  readonly #options: CallOptions | undefined;
  #call: ActorMethods<A> | undefined;
  #stream: ActorStreams<A> | undefined;

  constructor(connection: Connection, ender: ActorEnder, options?: CallOptions) {
    this.#connection = connection;
    this.#ender = ender;
    this.#options = options;
  }

  /** The connection behind a handle; undefined for anything else. */
  static connectionOf(value: object): Connection | undefined {
    return #connection in value ? (value.#connection as Connection) : undefined;
  }

  get id(): string {
    return this.#connection.actor.id;
  }

  get name(): string | undefined {
    return this.#connection.actor.name;
  }

  get state(): "ALIVE" | "RESTARTING" | "DEAD" {
    return this.#connection.state;
  }

  get pendingCalls(): number {
    return this.#connection.pendingCalls;
  }

  get call(): ActorMethods<A> {
    this.#call ??= methodProxy(
      (method) =>
        (...args) =>
          this.#connection.call(method, args, this.#options),
    ) as ActorMethods<A>;
    return this.#call;
  }

  get stream(): ActorStreams<A> {
    this.#stream ??= methodProxy((method) => (...args) => {
      const packed = this.#connection.packToKeep(method, args);
      return new StreamReader(this.#connection, method, packed, this.#options);
    }) as ActorStreams<A>;
    return this.#stream;
  }

  with(options: CallOptions): ActorRef<A> {
    const own = { ...this.#options, ...resolveCallOptions(options) };
    return new ActorHandle<A>(this.#connection, this.#ender, own);
  }

  async stop(options: { readonly deadlineMs?: number } = {}): Promise<DeathReport> {
    const deadlineMs = options.deadlineMs ?? DEFAULT_STOP_DEADLINE_MS;
    checkDurationMs("stop: deadlineMs", deadlineMs);
    const startedAt = performance.now();
    await this.#connection.drain(deadlineMs);
    const leftMs = Math.max(0, deadlineMs - (performance.now() - startedAt));
    this.#ender.stopActor(this.id, leftMs);
    return this.#connection.dead;
  }

  kill(options: { readonly restart?: boolean } = {}): Promise<DeathReport> {
    this.#ender.killActor(this.id, options.restart === true);
    return this.#connection.dead;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  toJSON(): { id: string; name: string | undefined } {
    return { id: this.id, name: this.name };
  }
}

/** An object whose every property is a method that `make` makes; it can be awaited and serialised without harm. */
export function methodProxy(make: (method: string) => (...args: unknown[]) => unknown): object {
  const methods = new Map<string, (...args: unknown[]) => unknown>();
  return new Proxy(Object.freeze({}), {
    get(_target, method) {
      if (typeof method !== "string" || method === "then" || method === "toJSON") return undefined;
      let call = methods.get(method);
      if (call === undefined) {
        call = make(method);
        methods.set(method, call);
      }
      return call;
    },
  });
}
