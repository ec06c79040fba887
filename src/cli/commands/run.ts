/**
 * `corral run`. Exit code 1 when a rollout failed after its attempts, a row could not be delivered or rebuilt, or the
 * run stopped early. Masked rows are results: a loud warning, exit code 0. A rollout that used up its turns or its time
 * is a result too.
 */
import { failedRollouts, loadConfig, type RunSummary, runRollouts } from "../../index.js";
import { printText, printWarning } from "../output.js";
import { createProgress, type Progress } from "../progress.js";
import { describeSummary } from "../summary.js";

export interface RunOptions {
  readonly config: readonly string[];
  readonly tasks: string;
  readonly out: string;
  readonly server?: string;
  readonly json?: boolean;
}

export async function runCommand(options: RunOptions): Promise<number> {
  const config = loadConfig(options.config);
  const progress = createProgress(process.stderr);
  const interrupt = interruptible(progress);
  let summary: RunSummary;
  try {
    summary = await runRollouts({
      config,
      tasks: options.tasks,
      out: options.out,
      ...(options.server === undefined ? {} : { server: options.server }),
      logger: actorLogger(progress),
      onEvent: (event) => progress.see(event),
      signal: interrupt.signal,
    });
  } finally {
    progress.stop();
    interrupt.release();
  }
  await printText(options.json ? `${JSON.stringify(summary)}\n` : describeSummary(summary));
  return judge(summary);
}

function judge(summary: RunSummary): number {
  const failed = failedRollouts(summary);
  if (summary.masked > 0)
    printWarning(
      `${summary.masked} of ${summary.rollouts} rows are masked: a trainer must skip them`,
    );
  for (const sign of summary.health) printWarning(sign);
  if (failed > 0) printWarning(`${failed} rollouts failed`);
  if (summary.stopped !== null)
    printWarning(
      `stopped: ${summary.stopped.message}; ${summary.remaining} rollouts are left${
        summary.remaining > 0 ? ", start again with the same --out" : ""
      }`,
    );
  const done =
    failed === 0 && summary.notRebuilt === 0 && summary.remaining === 0 && summary.stopped === null;
  return done ? 0 : 1;
}

const STOP_SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/** The first signal drains, the second ends the process; the watchdogs then end what its harnesses started. */
function interruptible(progress: Progress) {
  const controller = new AbortController();
  const onSignal = (_name: NodeJS.Signals, number: number) => {
    if (controller.signal.aborted) {
      progress.stop(); // The terminal gets its cursor back.
      process.exit(128 + number);
    }
    progress.note(
      "corral: interrupted: running rollouts end, no new ones start; once more ends all",
    );
    controller.abort();
  };
  for (const name of STOP_SIGNALS) process.on(name, onSignal);
  return {
    signal: controller.signal,
    release: () => {
      for (const name of STOP_SIGNALS) process.off(name, onSignal);
    },
  };
}

/** What actors log is for people only when something is wrong. */
function actorLogger(progress: Progress) {
  const shown = (fields: Record<string, unknown>, message: string) => {
    const error = fields["error"] ?? fields["err"];
    const reason = error instanceof Error ? `: ${error.message}` : "";
    progress.note(`corral: ${String(fields["actorId"] ?? "actor")}: ${message}${reason}`);
  };
  const silent = () => undefined;
  return { debug: silent, info: silent, warn: shown, error: shown };
}
