/** One listener per signal, however many calls share it: Node warns at eleven, and a run has one signal for thousands. */

const hubs = new WeakMap<AbortSignal, Set<() => void>>();

/** Calls `callback` when `signal` aborts, unless the function it returns is called before. */
export function onAbort(signal: AbortSignal, callback: () => void): () => void {
  let callbacks = hubs.get(signal);
  if (callbacks === undefined) {
    const all = new Set<() => void>();
    callbacks = all;
    hubs.set(signal, all);
    signal.addEventListener("abort", () => {
      for (const each of [...all]) each();
    });
  }
  callbacks.add(callback);
  return () => callbacks.delete(callback);
}
