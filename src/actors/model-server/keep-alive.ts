/**
 * Starts a slow stream and keeps it alive. Before it starts, an error still has its HTTP status.
 *
 * A1. Nothing is written before `afterMs`, and nothing after `stop`.
 */
import type { Clock } from "./clock.js";

const PING_EVERY_MS = 5000;

export interface KeepAlive {
  stop(): void;
}

/** `onStart` comes once, `onPing` with it and then every 5 s. */
export function startKeepAlive(
  clock: Clock,
  afterMs: number,
  onStart: () => void,
  onPing: () => void,
): KeepAlive {
  const ping = () => {
    onPing();
    cancel = clock.after(PING_EVERY_MS, ping);
  };
  let cancel = clock.after(afterMs, () => {
    onStart();
    ping();
  });
  return { stop: () => cancel() };
}
