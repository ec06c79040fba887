/**
 * An async function of the user's as a harness. It runs in the actor's thread, with our rights: it is trusted code.
 *
 * F1. The deadline holds also for a function that ignores its signal: the run ends, whatever the function does later.
 * F2. Programs that it started in the rollout's directory do not outlive the run.
 */
import { z } from "zod";
import type { RolloutFailure, Task } from "../../rollout.js";
import { AgentHarnessError } from "../errors.js";
import type { Harness, HarnessLaunch, HarnessRun } from "../harness.js";
import type { FunctionOptions } from "../options.js";
import { killRollout } from "../process-group.js";

/** What a function harness is called with. */
export interface FunctionHarnessContext {
  readonly rolloutId: string;
  readonly task: Task;
  readonly prompt: string;
  /** Without a trailing slash and without `/v1`. */
  readonly baseUrl: string;
  readonly apiKey: string;
  readonly model: string;
  /** Holds the task's files; removed after the verifier has run. */
  readonly workDir: string;
  /** Aborted at the deadline and when the rollout is cancelled. */
  readonly signal: AbortSignal;
}

/** A function harness. A throw fails the rollout; a new attempt may succeed. */
export type FunctionHarnessFunction = (
  context: FunctionHarnessContext,
) => Promise<string | { finalText?: string | null; finalMessageId?: string | null }>;

const Answer = z.union([
  z.string().transform((finalText) => ({ finalText, finalMessageId: null })),
  z.looseObject({
    finalText: z
      .string()
      .nullish()
      .transform((text) => text ?? null),
    finalMessageId: z
      .string()
      .nullish()
      .transform((id) => id ?? null),
  }),
]);

export class FunctionHarness implements Harness {
  readonly owner = null;
  readonly hasHome = false;
  readonly #run: FunctionHarnessFunction;

  constructor(run: FunctionHarnessFunction) {
    this.#run = run;
  }

  /** @throws HARNESS_MODULE_INVALID when the module does not load or the export is no function. */
  static async start(options: FunctionOptions): Promise<FunctionHarness> {
    const where = `${options.module}#${options.exportName}`;
    let exports: Record<string, unknown>;
    try {
      exports = await import(options.module);
    } catch (error) {
      throw new AgentHarnessError("HARNESS_MODULE_INVALID", `${where} does not load`, {
        cause: error,
      });
    }
    const run = exports[options.exportName];
    if (typeof run !== "function")
      throw new AgentHarnessError("HARNESS_MODULE_INVALID", `${where} is not a function`);
    return new FunctionHarness(run as FunctionHarnessFunction);
  }

  async run({ request, prompt, directory, signal }: HarnessLaunch): Promise<HarnessRun> {
    const ending = new AbortController();
    const ended = new Promise<RolloutFailure>((resolve) => {
      ending.signal.addEventListener("abort", () => resolve(ending.signal.reason), { once: true });
    });
    const cancel = (): void => ending.abort(failure("CANCELLED", "the rollout was cancelled"));
    const deadline = setTimeout(
      () => ending.abort(failure("HARNESS_TIMEOUT", `no end within ${request.timeoutMs} ms`)),
      request.timeoutMs,
    );
    signal.addEventListener("abort", cancel, { once: true });
    if (signal.aborted) cancel();
    const { rolloutId, task, baseUrl, apiKey, model } = request;
    const context = { rolloutId, task, prompt, baseUrl, apiKey, model };
    try {
      const answered = this.#answer({ ...context, workDir: directory.cwd, signal: ending.signal });
      const first = await Promise.race([answered, ended]); // F1
      return "code" in first ? ranTo(first) : first;
    } finally {
      clearTimeout(deadline);
      signal.removeEventListener("abort", cancel);
      await killRollout(null, directory.root); // F2
    }
  }

  async #answer(context: FunctionHarnessContext): Promise<HarnessRun> {
    try {
      const answer = Answer.parse(await this.#run(context));
      return { ...ranTo(null), finalText: answer.finalText, finalMessageId: answer.finalMessageId };
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      return ranTo({ code: "HARNESS_ERROR", message: message.slice(0, 500), retryable: true });
    }
  }
}

function failure(code: "CANCELLED" | "HARNESS_TIMEOUT", message: string): RolloutFailure {
  return { code, message, retryable: false };
}

function ranTo(failed: RolloutFailure | null): HarnessRun {
  return { finalText: null, finalMessageId: null, failure: failed, exitCode: null, stderrTail: "" };
}
