/** A queue with O(1) `push` and `shift`, and removal from the middle without a search. */
export class Fifo<T extends object> {
  #items: (T | undefined)[] = [];
  #head = 0;
  readonly #removed = new Set<T>();

  get size(): number {
    return this.#items.length - this.#head - this.#removed.size;
  }

  push(item: T): void {
    this.#items.push(item);
  }

  /** Puts `items` before all that waits, in their order. */
  pushFront(items: readonly T[]): void {
    this.#items = [...items, ...this.#items.slice(this.#head)];
    this.#head = 0;
  }

  /** The first item, which stays. */
  peek(): T | undefined {
    for (;;) {
      const first = this.#items[this.#head];
      if (first === undefined || !this.#removed.delete(first)) return first;
      this.#dropFirst();
    }
  }

  shift(): T | undefined {
    const first = this.peek();
    if (first !== undefined) this.#dropFirst();
    return first;
  }

  /** Contract: `item` is in the queue, once. */
  remove(item: T): void {
    this.#removed.add(item);
  }

  /** Empties the queue and returns what was in it, in order. */
  takeAll(): T[] {
    const items = this.#items.slice(this.#head) as T[];
    const kept = items.filter((item) => !this.#removed.has(item));
    this.#items = [];
    this.#head = 0;
    this.#removed.clear();
    return kept;
  }

  #dropFirst(): void {
    this.#items[this.#head] = undefined;
    this.#head += 1;
    // Dropping the consumed half now and then keeps taking O(1) without a linked list.
    if (this.#head > 64 && this.#head * 2 > this.#items.length) {
      this.#items = this.#items.slice(this.#head);
      this.#head = 0;
    }
  }
}
