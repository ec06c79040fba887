/**
 * The two ends of one call lane, as Comlink endpoints over a MessagePort. Comlink's own promise of a call never
 * settles when the other thread is gone; the caller's end knows the ids in flight and answers them itself.
 *
 * It depends on Comlink's wire shapes (`{id, type: "APPLY", argumentList}` and `{id, type: "RAW", value}`), hence on
 * the exact version in package.json; `test/unit/runtime/endpoint.test.ts` is the contract test.
 *
 * P1. Every request gets exactly one answer: the actor's, or after `fail` a `died` outcome, at once. An answer the
 *     actor posted before its end counts, even when the news of its death overtook it.
 * P2. A message that cannot be cloned fails only its own call.
 * P3. A message that arrives broken has lost its id, so all calls of the lane end as `died`: none may hang.
 */
import { type MessagePort, receiveMessageOnPort } from "node:worker_threads";
import type { Endpoint } from "comlink";
import type { Outcome } from "./protocol.js";

type Listener = (event: { data: unknown }) => void;

interface WireMessage {
  readonly id: string;
  readonly type: string;
}

/** The caller's end. */
export class CallerEndpoint implements Endpoint {
  readonly #port: MessagePort;
  readonly #inFlight = new Set<string>();
  readonly #listeners = new Set<Listener>();
  #failed = false;

  /** `onLost` is called when the other side is gone (the port closed) or a message arrived broken. */
  constructor(port: MessagePort, onLost: () => void) {
    this.#port = port;
    port.on("message", (message: WireMessage) => this.#onMessage(message));
    port.on("messageerror", onLost);
    port.on("close", onLost);
  }

  get inFlight(): number {
    return this.#inFlight.size;
  }

  postMessage(message: WireMessage): void {
    // Comlink releases a proxy it thinks collected; the lane lives as long as the actor does.
    if (message.type === "RELEASE") return;
    if (this.#failed) {
      this.#answer(message.id, { kind: "died" });
      return;
    }
    this.#inFlight.add(message.id);
    try {
      this.#port.postMessage(message);
    } catch (error) {
      this.#inFlight.delete(message.id);
      this.#answer(message.id, { kind: "not-cloneable", what: messageOf(error) });
    }
  }

  /** Answers all that is in flight, and all that comes, with `died` (P1). */
  fail(): void {
    if (this.#failed) return;
    this.#failed = true;
    let rest = receiveMessageOnPort(this.#port);
    for (; rest !== undefined; rest = receiveMessageOnPort(this.#port))
      this.#onMessage(rest.message as WireMessage);
    const ids = [...this.#inFlight];
    this.#inFlight.clear();
    for (const id of ids) this.#answer(id, { kind: "died" });
    this.#port.close();
  }

  addEventListener(_type: string, listener: unknown): void {
    this.#listeners.add(listener as Listener);
  }

  removeEventListener(_type: string, listener: unknown): void {
    this.#listeners.delete(listener as Listener);
  }

  #onMessage(message: WireMessage): void {
    if (this.#inFlight.delete(message.id)) this.#deliver(message);
  }

  #answer(id: string, outcome: Outcome): void {
    this.#deliver({ id, type: "RAW", value: outcome });
  }

  #deliver(data: unknown): void {
    for (const listener of this.#listeners) listener({ data });
  }
}

/** The actor's end. */
export class ActorEndpoint implements Endpoint {
  readonly #port: MessagePort;

  constructor(port: MessagePort) {
    this.#port = port;
    // Closing takes the caller's calls with it, so they end instead of hanging (P3).
    port.on("messageerror", () => port.close());
  }

  postMessage(message: WireMessage): void {
    try {
      this.#port.postMessage(message);
    } catch (error) {
      const outcome: Outcome = { kind: "not-cloneable", what: messageOf(error) };
      this.#port.postMessage({ id: message.id, type: "RAW", value: outcome });
    }
  }

  addEventListener(_type: string, listener: unknown): void {
    this.#port.on("message", (data: unknown) => (listener as Listener)({ data }));
  }

  removeEventListener(): void {
    this.#port.close();
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
