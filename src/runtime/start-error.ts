/** Ends that no thread of an actor reports itself. */
import { type ActorLabel, ActorStartError, type DeathReport, labelText } from "./errors.js";

/** An id without a report is one this runtime never had, or has forgotten. */
export function unknownDeath(): DeathReport {
  return {
    cause: "exit",
    exitCode: null,
    error: new Error("This runtime does not know the actor."),
    lastLogs: [],
    uptimeMs: 0,
    restarts: 0,
  };
}

/** What `spawn` rejects with: of a thread that ended, or of a `thrown` that kept it from starting. */
export function startError(
  actor: ActorLabel,
  report: DeathReport | undefined,
  thrown?: unknown,
): ActorStartError {
  const cause = report === undefined ? thrown : report.error;
  const ended = report === undefined ? "" : ` (${report.cause}, exit code ${report.exitCode})`;
  const why =
    cause instanceof Error ? `: ${cause.message}` : cause === undefined ? "" : `: ${cause}`;
  const message = `${labelText(actor)} did not start${ended}${why}`;
  return new ActorStartError(actor.id, message, cause === undefined ? {} : { cause }, report);
}
