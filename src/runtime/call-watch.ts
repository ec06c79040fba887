/** What may give a call up before it ends: its own signal, its time, or the end of the call it was made in. */
import { onAbort } from "./abort-hub.js";
import { signalOfCall } from "./call-context.js";
import { type ActorLabel, CallCancelledError, CallTimeoutError } from "./errors.js";
import type { CallOptions, OutgoingCall } from "./outgoing-call.js";

/** Starts to watch a call; returns what ends it. */
export type CallWatch = (call: OutgoingCall) => () => void;

/**
 * Undefined when nothing can give the call up.
 *
 * @param giveUp Called at most once, with the error for the caller; at once when a signal is aborted already.
 */
export function watchFor(
  actor: ActorLabel,
  options: CallOptions | undefined,
  giveUp: (call: OutgoingCall, error: Error) => void,
): CallWatch | undefined {
  const own = options?.signal;
  const outer = signalOfCall();
  const timeoutMs = options?.timeoutMs;
  if (own === undefined && outer === undefined && timeoutMs === undefined) return undefined;
  const signals = [own, outer].filter((signal) => signal !== undefined);
  return (call) => {
    const endings: (() => void)[] = [];
    const unwatch = (): void => {
      for (const end of endings) end();
    };
    for (const signal of signals) {
      const cancel = (): void =>
        giveUp(call, new CallCancelledError(actor, call.method, call.phase, signal.reason));
      if (signal.aborted) {
        cancel();
        return unwatch;
      }
      endings.push(onAbort(signal, cancel));
    }
    if (timeoutMs !== undefined) {
      const timer = setTimeout(
        () => giveUp(call, new CallTimeoutError(actor, call.method, timeoutMs, call.phase)),
        timeoutMs,
      );
      endings.push(() => clearTimeout(timer));
    }
    return unwatch;
  };
}
