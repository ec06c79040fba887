/** Collects the times of calls in an actor's thread and hands them on in batches. */
import type { CallSpan } from "./protocol.js";

const BATCH = 256;
const FLUSH_MS = 200;

export class SpanBatch {
  readonly #send: (spans: readonly CallSpan[]) => void;
  #spans: CallSpan[] = [];
  #timer: NodeJS.Timeout | undefined;

  constructor(send: (spans: readonly CallSpan[]) => void) {
    this.#send = send;
  }

  add(span: CallSpan): void {
    this.#spans.push(span);
    if (this.#spans.length >= BATCH) this.flush();
    else this.#timer ??= setTimeout(() => this.flush(), FLUSH_MS).unref();
  }

  flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#spans.length === 0) return;
    const spans = this.#spans;
    this.#spans = [];
    this.#send(spans);
  }
}
