/**
 * Back-pressure: how many bytes may be on their way to the writer. Those that do not fit wait in their order.
 *
 * G1. First come, first served: a row that was encoded upon another one never overtakes it.
 * G2. One that is larger than the limit passes alone.
 */
export class ByteGate {
  readonly #maxBytes: number;
  readonly #waiting: { readonly bytes: number; enter(): void; refuse(error: Error): void }[] = [];
  #bytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Resolves when the bytes may go; they count until `leave`. */
  async enter(bytes: number): Promise<void> {
    if (this.#waiting.length > 0 || !this.#fits(bytes)) {
      await new Promise<void>((resolve, refuse) =>
        this.#waiting.push({ bytes, enter: resolve, refuse }),
      );
      return;
    }
    this.#bytes += bytes;
  }

  leave(bytes: number): void {
    this.#bytes -= bytes;
    for (
      let [next] = this.#waiting;
      next !== undefined && this.#fits(next.bytes);
      [next] = this.#waiting
    ) {
      this.#waiting.shift();
      this.#bytes += next.bytes;
      next.enter();
    }
  }

  /** Refuses all that wait. */
  close(error: Error): void {
    for (const { refuse } of this.#waiting.splice(0)) refuse(error);
  }

  #fits(bytes: number): boolean {
    return this.#bytes === 0 || this.#bytes + bytes <= this.#maxBytes;
  }
}
