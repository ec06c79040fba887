/**
 * A handle of an actor. It is a view on this thread's connection, so it costs nothing to copy and may be sent, in
 * plain objects and arrays, to any other actor.
 */
import type { Connection } from "./connection.js";
import type { DeathReport } from "./errors.js";
import { checkDurationMs } from "./options.js";

/** The methods of an actor as its callers see them: always asynchronous. Fields and accessors are not callable. */
export type ActorMethods<A> = {
  readonly [K in MethodKeys<A>]: A[K] extends (...args: infer P) => infer R
    ? (...args: P) => Promise<Awaited<R>>
    : never;
};

type MethodKeys<A> = {
  // `then` would make `call` a promise to `await`.
  [K in keyof A & string]: K extends "then"
    ? never
    : A[K] extends (...args: never[]) => unknown
      ? K
      : never;
}[keyof A & string];

/** A handle of a running actor of class `A`. It may be part of an argument, a result or a spawn option. */
export interface ActorRef<A> {
  readonly id: string;
  readonly name: string | undefined;
  /**
   * The actor's methods. Arguments and results are structured clones. Calls made by one thread start in order.
   *
   * @throws ACTOR_DIED when the actor is dead, or dies before it answers.
   * @throws NOT_CLONEABLE when an argument or the result cannot cross a thread; only that call fails.
   * @throws METHOD_NOT_FOUND when the actor has no such method.
   */
  readonly call: ActorMethods<A>;
  /**
   * Ends the actor in order: this thread's calls and the running ones end, the stop hook runs, the thread exits.
   * At the deadline the thread is ended (cause `killed`).
   *
   * @param options.deadlineMs Default 10 000.
   */
  stop(options?: { readonly deadlineMs?: number }): Promise<DeathReport>;
  /** Ends the thread at once. A thread inside a native call ends when that returns. */
  kill(): Promise<DeathReport>;
}

/** What a handle needs of its thread to end an actor. */
export interface ActorEnder {
  stopActor(actorId: string, deadlineMs: number): void;
  killActor(actorId: string): void;
}

const DEFAULT_STOP_DEADLINE_MS = 10_000;

export class ActorHandle<A> implements ActorRef<A> {
  readonly #connection: Connection;
  readonly #ender: ActorEnder;
  readonly #call: ActorMethods<A>;

  constructor(connection: Connection, ender: ActorEnder) {
    this.#connection = connection;
    this.#ender = ender;
    this.#call = callProxy(connection) as ActorMethods<A>;
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

  get call(): ActorMethods<A> {
    return this.#call;
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

  kill(): Promise<DeathReport> {
    this.#ender.killActor(this.id);
    return this.#connection.dead;
  }

  toJSON(): { id: string; name: string | undefined } {
    return { id: this.id, name: this.name };
  }
}

function callProxy(connection: Connection): object {
  const methods = new Map<string, (...args: unknown[]) => Promise<unknown>>();
  return new Proxy(Object.freeze({}), {
    get(_target, method) {
      if (typeof method !== "string" || method === "then" || method === "toJSON") return undefined;
      let call = methods.get(method);
      if (call === undefined) {
        call = (...args) => connection.call(method, args);
        methods.set(method, call);
      }
      return call;
    },
  });
}
