/**
 * The actor's end of a stream: runs the generator as far as its consumer's credit goes.
 *
 * S1. An item is asked of the generator only when the consumer has room for it.
 * S2. A consumer that leaves ends the generator by `return`, so its `finally` runs before the stream's end is told.
 * S3. Small items travel together, and none waits for another longer than one turn of the event loop.
 */
import { isPrimitive } from "./wire-value.js";

/** What a streaming method may return. */
export type StreamSource = AsyncIterable<unknown> | Iterable<unknown>;

export function isStreamSource(value: unknown): value is StreamSource {
  return (
    typeof value === "object" &&
    value !== null &&
    (Symbol.asyncIterator in value || Symbol.iterator in value)
  );
}

export class StreamWriter {
  readonly #post: (item: unknown) => void;
  #small: unknown[] = [];
  #credit = 0;
  #left = false;
  #wake: () => void = () => {};
  #flushing: NodeJS.Immediate | undefined;

  /** @param post Sends one item. Calls of one turn travel together. May throw for an item that cannot be cloned. */
  constructor(post: (item: unknown) => void) {
    this.#post = post;
  }

  /** The consumer has room for so many more items. */
  credit(items: number): void {
    this.#credit += items;
    this.#wake();
  }

  /** The consumer left. */
  leave(): void {
    this.#left = true;
    this.#wake();
  }

  /** Resolves when the generator has ended. @throws what the generator throws, or UncloneableError for an item */
  async pump(source: StreamSource): Promise<void> {
    const iterator: AsyncIterator<unknown> | Iterator<unknown> =
      Symbol.asyncIterator in source ? source[Symbol.asyncIterator]() : source[Symbol.iterator]();
    try {
      while (await this.#hasRoom()) {
        const result = await iterator.next();
        if (result.done === true) return;
        this.#send(result.value);
      }
      await iterator.return?.();
    } catch (error) {
      // What the generator threw has ended it already; an item that could not be sent has not.
      await iterator.return?.();
      throw error;
    } finally {
      this.#flush();
    }
  }

  async #hasRoom(): Promise<boolean> {
    while (this.#credit === 0 && !this.#left) {
      this.#flush();
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    return !this.#left;
  }

  #send(item: unknown): void {
    this.#credit -= 1;
    if (isPrimitive(item)) {
      this.#small.push(item);
      this.#flushing ??= setImmediate(() => this.#flush());
      return;
    }
    this.#flush();
    this.#post(item);
  }

  #flush(): void {
    if (this.#flushing !== undefined) clearImmediate(this.#flushing);
    this.#flushing = undefined;
    const small = this.#small;
    this.#small = [];
    for (const item of small) this.#post(item);
  }
}
