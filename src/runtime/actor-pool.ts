/**
 * Ray's `ActorPool`: spreads work over actors, one piece at a time each.
 *
 * Q1. Work starts in the order it was submitted, whenever an actor is free.
 * Q2. `getNext` and `map` give results in the order of submission, the unordered ones as they come.
 * Q3. A piece that fails rejects where its result is taken; its actor goes back to work.
 */
import { Fifo } from "./fifo.js";
import type { ActorRef } from "./handle.js";

/** What to do with an actor for one value: `(ref, value) => ref.call.method(value)`. */
export type PoolWork<A, V, R> = (ref: ActorRef<A>, value: V) => Promise<R>;

interface Piece<A> {
  /** Contract: never rejects. */
  run(ref: ActorRef<A>): Promise<void>;
}

export class ActorPool<A> {
  readonly #idle: ActorRef<A>[];
  readonly #queue = new Fifo<Piece<A>>();
  /** Results of `submit` that nobody took yet, in the order of submission. */
  readonly #open = new Set<Promise<unknown>>();
  /** Those of them that are here, in the order of coming. */
  readonly #ended = new Set<Promise<unknown>>();
  #wake: (() => void)[] = [];

  constructor(refs: readonly ActorRef<A>[]) {
    this.#idle = [...refs];
  }

  /** Runs `work` on the next free actor; `getNext` and `getNextUnordered` give its result. */
  submit<V, R>(work: PoolWork<A, V, R>, value: V): void {
    const result = this.#enqueue(work, value);
    this.#open.add(result);
    const note = (): void => {
      if (this.#open.has(result)) this.#ended.add(result);
      for (const wake of this.#wake.splice(0)) wake();
    };
    result.then(note, note);
  }

  /** True while there are submitted results to take. */
  hasNext(): boolean {
    return this.#open.size > 0;
  }

  /** True when an actor is free. */
  hasFree(): boolean {
    return this.#idle.length > 0;
  }

  /** The next result in the order of submission. @throws RangeError when there is none */
  async getNext<R = unknown>(): Promise<R> {
    const [result] = this.#open;
    if (result === undefined) throw noMore();
    return (await this.#take(result)) as R;
  }

  /** The next result that comes. @throws RangeError when there is none */
  async getNextUnordered<R = unknown>(): Promise<R> {
    while (this.#open.size > 0) {
      const [result] = this.#ended;
      if (result !== undefined) return (await this.#take(result)) as R;
      await new Promise<void>((resolve) => this.#wake.push(resolve));
    }
    throw noMore();
  }

  /** Results in the order of `values`, all of which are submitted at once. */
  async *map<V, R>(
    work: PoolWork<A, V, R>,
    values: Iterable<V>,
  ): AsyncGenerator<R, void, undefined> {
    const results = [...values].map((value) => this.#enqueue(work, value));
    for (const result of results) yield await result;
  }

  /** Results as they come; all `values` are submitted at once. */
  async *mapUnordered<V, R>(
    work: PoolWork<A, V, R>,
    values: Iterable<V>,
  ): AsyncGenerator<R, void, undefined> {
    const ended = new Fifo<Promise<R>>();
    let wake = (): void => {};
    const results = [...values].map((value) => this.#enqueue(work, value));
    for (const result of results) {
      const note = (): void => {
        ended.push(result);
        wake();
      };
      result.then(note, note);
    }
    for (let left = results.length; left > 0; left--) {
      if (ended.size === 0)
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      yield (await ended.shift()) as R;
    }
  }

  /** Adds an actor. */
  push(ref: ActorRef<A>): void {
    this.#idle.push(ref);
    this.#startNext();
  }

  /** Takes a free actor out of the pool; undefined when all are at work. */
  popIdle(): ActorRef<A> | undefined {
    return this.#idle.pop();
  }

  #enqueue<V, R>(work: PoolWork<A, V, R>, value: V): Promise<R> {
    const result = new Promise<R>((resolve, reject) => {
      const run = async (ref: ActorRef<A>): Promise<void> => {
        try {
          resolve(await work(ref, value));
        } catch (error) {
          reject(error as Error);
        }
      };
      this.#queue.push({ run });
    });
    // Whoever takes the result hears of a failure; until then it must not end the process.
    result.catch(() => {});
    this.#startNext();
    return result;
  }

  #startNext(): void {
    if (this.#queue.size === 0) return;
    const ref = this.#idle.shift();
    if (ref === undefined) return;
    void this.#queue
      .shift()
      ?.run(ref)
      .then(() => this.push(ref));
  }

  #take(result: Promise<unknown>): Promise<unknown> {
    this.#open.delete(result);
    this.#ended.delete(result);
    return result;
  }
}

function noMore(): RangeError {
  return new RangeError("ActorPool: there is no result to take; look at hasNext() first");
}
