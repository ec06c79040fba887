/**
 * One end of a call lane over a MessagePort. Small messages of one turn travel together, since the port costs more
 * than their content.
 *
 * P1. Messages arrive in the order they were sent, each once.
 * P2. A message that cannot be cloned throws at its sender and takes no other with it.
 * P3. Messages that share an object do not share it on the other side: only primitives travel together.
 * P4. A message that arrives broken closes the lane, because nobody can tell whom it was for.
 */
import { type MessagePort, receiveMessageOnPort } from "node:worker_threads";

/** What a lane needs of its transport. Any other transport that keeps P1 to P4 will do. */
export interface Wire<Out> {
  /** Contract: `message` holds only primitives and arrays of them that nobody changes. */
  send(message: Out): void;
  /** @throws DataCloneError */
  sendAlone(message: Out, transfer?: readonly ArrayBuffer[]): void;
  /** Receives at once what the other side has posted. */
  drain(): void;
  close(): void;
}

interface WireEvents<In> {
  onMessage(message: In): void;
  /** The other side is gone, or a message arrived broken. */
  onLost(): void;
}

export class PortWire<Out, In> implements Wire<Out> {
  readonly #port: MessagePort;
  readonly #onMessage: (message: In) => void;
  #batch: Out[] = [];
  readonly #flush = (): void => this.#post();

  constructor(port: MessagePort, events: WireEvents<In>) {
    this.#port = port;
    this.#onMessage = (message) => events.onMessage(message);
    port.on("message", (batch: In[]) => this.#receive(batch));
    // Closing takes both ends' calls with it, so that they end instead of hanging (P4).
    port.on("messageerror", () => port.close());
    port.on("close", () => events.onLost());
  }

  send(message: Out): void {
    if (this.#batch.push(message) === 1) queueMicrotask(this.#flush);
  }

  sendAlone(message: Out, transfer: readonly ArrayBuffer[] = []): void {
    this.#post();
    this.#port.postMessage([message], transfer as ArrayBuffer[]);
  }

  drain(): void {
    let rest = receiveMessageOnPort(this.#port);
    for (; rest !== undefined; rest = receiveMessageOnPort(this.#port))
      this.#receive(rest.message as In[]);
  }

  close(): void {
    this.#port.close();
  }

  #post(): void {
    if (this.#batch.length === 0) return;
    const batch = this.#batch;
    this.#batch = [];
    this.#port.postMessage(batch);
  }

  #receive(batch: In[]): void {
    for (const message of batch) this.#onMessage(message);
  }
}
