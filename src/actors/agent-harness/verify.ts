import type { HarnessRequest, RolloutFailure, Task } from "../rollout.js";
import type { HarnessContext } from "./context.js";
import type { HarnessRun, WorkingDirectory } from "./harness.js";

/** What a verifier is called with, on a task thread. It returns the reward, as a number or as `{ reward }`. */
export interface VerifierInput {
  readonly task: Task;
  /** The task's `verifier_params`. */
  readonly params: unknown;
  /** The final answer, without reasoning; null when there was none. */
  readonly finalText: string | null;
  /** The harness ended by itself and reported no error. */
  readonly completed: boolean;
  /** Read it with `readWorkFile` only: what lies there was written by the policy. */
  readonly workDir: string;
}

export type Verifier = (
  input: VerifierInput,
) => number | { reward: number } | Promise<number | { reward: number }>;

export interface Verdict {
  readonly reward: number | null;
  readonly failure: RolloutFailure | null;
}

/** Runs the task's verifier. Its throw, its lateness and a reward that is no finite number are VERIFIER_ERROR. */
export async function verify(
  ctx: HarnessContext,
  request: HarnessRequest,
  run: HarnessRun,
  directory: WorkingDirectory,
  timeoutMs: number,
): Promise<Verdict> {
  const { verifier, task } = request;
  if (verifier === undefined || run.failure?.code === "CANCELLED")
    return { reward: null, failure: null };
  const input: VerifierInput = {
    task,
    params: task.verifier_params,
    finalText: run.finalText,
    completed: run.failure === null,
    workDir: directory.cwd,
  };
  try {
    const answer = await ctx.task(verifier.module, verifier.exportName, [input], { timeoutMs });
    const reward = rewardOf(answer);
    if (reward !== null) return { reward, failure: null };
    return failed(`returned ${printed(answer)}; allowed is a finite number or { reward }`);
  } catch (error) {
    return failed(error instanceof Error ? error.message : String(error));
  }
}

function rewardOf(answer: unknown): number | null {
  const reward =
    typeof answer === "object" && answer !== null && "reward" in answer ? answer.reward : answer;
  return typeof reward === "number" && Number.isFinite(reward) ? reward : null;
}

function printed(answer: unknown): string {
  return typeof answer === "number"
    ? String(answer)
    : (JSON.stringify(answer) ?? "nothing").slice(0, 200);
}

function failed(message: string): Verdict {
  const failure = {
    code: "VERIFIER_ERROR",
    message: message.slice(0, 500),
    retryable: false,
  } as const;
  return { reward: null, failure };
}
