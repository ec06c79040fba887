/**
 * Runs rollouts of one harness: directory, harness, verifier, removal. It knows no tokens and no capture.
 *
 * H1. A bad task, a bad harness and a bad verifier are outcomes, never a throw.
 * H2. What a task asks for is checked before anything of it runs.
 * H3. The verifier sees the directory after every process of the rollout is gone and before it is removed.
 * H4. Nothing is left of a rollout when `run` settles: no process, no directory.
 */
import type { HarnessOutcome, HarnessRequest, RolloutFailure } from "../rollout.js";
import type { HarnessContext } from "./context.js";
import type { Harness, HarnessRun } from "./harness.js";
import { startClaudeAgentSdk } from "./kinds/claude-agent-sdk.js";
import { startClaudeCode } from "./kinds/claude-code.js";
import { startCodex } from "./kinds/codex.js";
import { startCommand } from "./kinds/command.js";
import { FunctionHarness } from "./kinds/function.js";
import { startOpencode } from "./kinds/opencode.js";
import { startPi } from "./kinds/pi.js";
import { type ResolvedAgentHarnessOptions, tempRootOf } from "./options.js";
import { taskPrompt } from "./prompt.js";
import { checkTaskFiles } from "./task-files.js";
import { verify } from "./verify.js";
import { Watchdog } from "./watchdog.js";
import { WorkingDirectories } from "./working-directory.js";

/** The parts an `AgentHarness` works with. */
export interface AgentHarnessParts {
  readonly harness: Harness;
  readonly directories: WorkingDirectories;
  readonly watchdog: Watchdog;
  readonly verifierTimeoutMs: number;
}

interface RunningRollout {
  readonly rolloutId: string;
  readonly outcome: Promise<HarnessOutcome>;
}

export class AgentHarness {
  readonly #parts: AgentHarnessParts;
  readonly #ctx: HarnessContext;
  readonly #running = new Map<AbortController, RunningRollout>();

  constructor(parts: AgentHarnessParts, ctx: HarnessContext) {
    this.#parts = parts;
    this.#ctx = ctx;
  }

  /** @throws HARNESS_NOT_FOUND, HARNESS_MODULE_INVALID, ISOLATION_FAILED or WATCHDOG_FAILED when it cannot run harnesses here. */
  static async start(
    options: ResolvedAgentHarnessOptions,
    ctx: HarnessContext,
  ): Promise<AgentHarness> {
    const watchdog = await Watchdog.start(ctx.logger);
    try {
      const directories = await WorkingDirectories.open(tempRootOf(options), watchdog);
      const harness = await startHarness(options, directories, ctx.logger);
      const { verifierTimeoutMs } = options;
      return new AgentHarness({ harness, directories, watchdog, verifierTimeoutMs }, ctx);
    } catch (error) {
      await watchdog.close();
      throw error;
    }
  }

  /** Runs one rollout to its outcome. Several may run at once. Never throws. */
  run(request: HarnessRequest): Promise<HarnessOutcome> {
    const cancel = new AbortController();
    const outcome = this.#rollOut(request, cancel.signal).finally(() =>
      this.#running.delete(cancel),
    );
    this.#running.set(cancel, { rolloutId: request.rolloutId, outcome });
    return outcome;
  }

  /** Ends these rollouts as CANCELLED; resolves when nothing of them is left. Ids that do not run are nothing to do. */
  async cancel(rolloutIds: readonly string[]): Promise<void> {
    await this.#cancelWhere(({ rolloutId }) => rolloutIds.includes(rolloutId));
  }

  /** Ends every running rollout as CANCELLED; resolves when nothing of them is left. Later runs are not affected. */
  async cancelAll(): Promise<void> {
    await this.#cancelWhere(() => true);
  }

  async close(): Promise<void> {
    await this.cancelAll();
    await this.#parts.watchdog.close();
  }

  async #cancelWhere(isMeant: (rollout: RunningRollout) => boolean): Promise<void> {
    const cancelled = [...this.#running].filter(([, rollout]) => isMeant(rollout));
    for (const [cancel] of cancelled) cancel.abort();
    await Promise.all(cancelled.map(([, { outcome }]) => outcome));
  }

  async #rollOut(request: HarnessRequest, signal: AbortSignal): Promise<HarnessOutcome> {
    const startedAt = performance.now();
    const finish = (run: HarnessRun, reward: number | null): HarnessOutcome => ({
      completed: run.failure === null || run.failure.code === "VERIFIER_ERROR",
      ...run,
      reward,
      wallMs: Math.round(performance.now() - startedAt),
    });
    try {
      const prompt = checkedPrompt(request); // H2
      return await this.#runIn(request, prompt, signal, finish);
    } catch (error) {
      return finish(notRun(failureOf(error)), null); // H1
    }
  }

  async #runIn(
    request: HarnessRequest,
    prompt: string,
    signal: AbortSignal,
    finish: (run: HarnessRun, reward: number | null) => HarnessOutcome,
  ): Promise<HarnessOutcome> {
    const { harness, directories, verifierTimeoutMs } = this.#parts;
    const directory = await directories.create(request.task.files ?? {}, harness);
    try {
      const run = await harness.run({ request, prompt, directory, signal });
      const verdict = await verify(this.#ctx, request, run, directory, verifierTimeoutMs); // H3
      return finish({ ...run, failure: run.failure ?? verdict.failure }, verdict.reward);
    } finally {
      await this.#remove(directory); // H4
    }
  }

  async #remove(directory: Parameters<WorkingDirectories["remove"]>[0]): Promise<void> {
    try {
      await this.#parts.directories.remove(directory);
    } catch (error) {
      // Still registered: the watchdog tries again at the end.
      this.#ctx.logger.error(
        { err: error, root: directory.root },
        "a rollout's directory was not removed",
      );
    }
  }
}

function startHarness(
  options: ResolvedAgentHarnessOptions,
  directories: WorkingDirectories,
  logger: HarnessContext["logger"],
): Promise<Harness> {
  switch (options.kind) {
    case "claude_code":
      return startClaudeCode(options, directories, logger);
    case "claude_agent_sdk":
      return startClaudeAgentSdk(options, directories, logger);
    case "codex":
      return startCodex(options, directories, logger);
    case "opencode":
      return startOpencode(options, directories, logger);
    case "pi":
      return startPi(options, directories, logger);
    case "command":
      return startCommand(options, directories, logger);
    case "function":
      return FunctionHarness.start(options);
  }
}

function checkedPrompt({ task }: HarnessRequest): string {
  checkTaskFiles(task.files);
  return taskPrompt(task);
}

/** A task we refuse fails the same way again; anything else may be this machine's mood. */
function failureOf(error: unknown): RolloutFailure {
  const message = error instanceof Error ? error.message : String(error);
  const refused = error instanceof Error && "code" in error && error.code === "TASK_INVALID";
  return { code: "HARNESS_ERROR", message, retryable: !refused };
}

function notRun(failure: RolloutFailure): HarnessRun {
  return { finalText: null, finalMessageId: null, failure, exitCode: null, stderrTail: "" };
}
