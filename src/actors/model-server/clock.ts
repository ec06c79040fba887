/** Time as the server needs it; tests move it by hand. */
export interface Clock {
  /** Unix epoch, milliseconds. */
  nowMs(): number;
  /** Calls back once after that time. @returns a function that cancels it. */
  after(delayMs: number, callback: () => void): () => void;
}

export const systemClock: Clock = {
  nowMs: () => Date.now(),
  after(delayMs, callback) {
    const timer = setTimeout(callback, delayMs);
    return () => clearTimeout(timer);
  },
};

/** Settles as the promise does, or rejects after `timeoutMs`. The promise itself goes on. */
export function withDeadline<T>(
  promise: Promise<T>,
  what: string,
  timeoutMs: number,
  clock: Clock,
): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const cancel = clock.after(timeoutMs, () =>
      reject(new Error(`${what} did not finish within ${timeoutMs} ms`)),
    );
    void promise.then(resolve, reject).finally(cancel);
  });
}

/** Settles as the promise does, or rejects with the signal's reason as soon as it is aborted. */
export function untilAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const onAbort = () => reject(signal.reason as Error);
    if (signal.aborted) onAbort();
    signal.addEventListener("abort", onAbort, { once: true });
    void promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", onAbort));
  });
}
