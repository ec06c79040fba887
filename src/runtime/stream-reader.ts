/**
 * The consumer's end of a stream.
 *
 * S4. Never more than `window` items are under way; the actor's generator rests until the consumer has taken some.
 * S5. Leaving the loop runs the generator's `finally` and waits for it.
 * S6. A dead actor errors the loop, after the items that had arrived (R1).
 *
 * The call is made when the first item is asked for, with the arguments of the time the stream was made.
 */
import type { Connection, PackedArgs } from "./connection.js";
import { Fifo } from "./fifo.js";
import type { CallOptions, OutgoingCall } from "./outgoing-call.js";

interface Waiting {
  resolve(result: IteratorResult<unknown, undefined>): void;
  reject(reason: unknown): void;
}

export class StreamReader implements AsyncIterableIterator<unknown, undefined> {
  readonly #connection: Connection;
  readonly #method: string;
  readonly #args: PackedArgs;
  readonly #options: CallOptions | undefined;
  readonly #items = new Fifo<{ readonly value: unknown }>();
  readonly #waiting = new Fifo<Waiting>();
  #call: OutgoingCall | undefined;
  #taken = 0;
  #failure: { readonly reason: unknown } | undefined;
  #ended = false;
  #left = false;
  #whenEnded: () => void = () => {};

  constructor(
    connection: Connection,
    method: string,
    args: PackedArgs,
    options: CallOptions | undefined,
  ) {
    this.#connection = connection;
    this.#method = method;
    this.#args = args;
    this.#options = options;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<IteratorResult<unknown, undefined>> {
    if (this.#call === undefined && !this.#left) this.#start();
    const item = this.#items.shift();
    if (item !== undefined) {
      this.#acknowledge();
      return Promise.resolve({ value: item.value, done: false });
    }
    if (this.#ended || this.#left) return this.#end();
    return new Promise((resolve, reject) => this.#waiting.push({ resolve, reject }));
  }

  async return(): Promise<IteratorResult<unknown, undefined>> {
    this.#left = true;
    this.#items.takeAll();
    this.#failure = undefined;
    if (this.#call !== undefined && !this.#ended) {
      const ended = new Promise<void>((resolve) => {
        this.#whenEnded = resolve;
      });
      this.#connection.endStream(this.#call);
      await ended;
    }
    return { value: undefined, done: true };
  }

  #start(): void {
    this.#call = this.#connection.submit("stream", this.#method, this.#args, this.#options, {
      item: (value) => this.#onItem(value),
      resolve: () => this.#onEnd(),
      reject: (reason) => {
        this.#failure = { reason };
        this.#onEnd();
      },
    });
  }

  #onItem(value: unknown): void {
    if (this.#left) return;
    const waiting = this.#waiting.shift();
    if (waiting === undefined) {
      this.#items.push({ value });
      return;
    }
    this.#acknowledge();
    waiting.resolve({ value, done: false });
  }

  /** Half a window at a time, so that credit costs a message only now and then. */
  #acknowledge(): void {
    this.#taken += 1;
    if (this.#call === undefined || this.#taken * 2 < this.#call.window) return;
    this.#connection.credit(this.#call, this.#taken);
    this.#taken = 0;
  }

  #onEnd(): void {
    this.#ended = true;
    this.#whenEnded();
    for (const { resolve, reject } of this.#waiting.takeAll()) this.#end().then(resolve, reject);
  }

  /** Fails once, then is done, as a generator does. */
  #end(): Promise<IteratorResult<unknown, undefined>> {
    const failure = this.#left ? undefined : this.#failure;
    this.#failure = undefined;
    if (failure !== undefined) return Promise.reject(failure.reason);
    return Promise.resolve({ value: undefined, done: true });
  }
}
