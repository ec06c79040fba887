/**
 * Which call the code that runs now belongs to: gives a method its signal, and cancels what it calls in turn.
 *
 * N1. Each cancellable call has a signal of its own, also when several run at a time.
 * N2. Calls made within a call are cancelled with it.
 *
 * Node pays for every promise once a store is used, so a call that nobody can cancel has none.
 */
import { AsyncLocalStorage } from "node:async_hooks";

const storage = new AsyncLocalStorage<AbortSignal>();
const never = new AbortController().signal;
let used = false;

/** The signal of the call that runs now; undefined outside of a cancellable call. */
export function signalOfCall(): AbortSignal | undefined {
  return used ? storage.getStore() : undefined;
}

/** As `signalOfCall`, with a signal that never aborts for a call that cannot be cancelled. */
export function signalOrNever(): AbortSignal {
  return signalOfCall() ?? never;
}

export function runWithSignal<T>(signal: AbortSignal, work: () => T): T {
  used = true;
  return storage.run(signal, work);
}
