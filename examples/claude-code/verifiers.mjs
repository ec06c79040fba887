/**
 * Verifiers of the example: plain functions of what a rollout left behind. They run as stateless tasks, so they hold no
 * module state. Rewards are in [0, 1]; a part is paid for half a job, so that a policy can climb.
 */
import { readWorkFile } from "corral/actors";

/** 1 when the final answer is exactly the word; 0.3 when the word is in it. */
export function answerEquals({ finalText, params }) {
  const answer = (finalText ?? "").trim();
  if (answer === params.text) return 1;
  return answer.includes(params.text) ? 0.3 : 0;
}

/** 0.2 when the file exists, 0.6 more when it holds the text, 0.2 more when the harness also finished by itself. */
export async function fileEquals({ workDir, params, completed }) {
  const content = await readWorkFile(workDir, params.path);
  if (content === null) return 0;
  if (content.trim() !== params.text) return 0.2;
  return completed ? 1 : 0.8;
}
