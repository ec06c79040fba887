import type { Task } from "../rollout.js";
import { AgentHarnessError } from "./errors.js";

const TEXT_PARTS = new Set(["text", "input_text"]);
const PLAIN_ROLES = new Set(["system", "developer", "user"]);

/**
 * The text given to a harness: the task's turns in order, so that the last user message ends it and earlier system
 * and user turns stand before it.
 * @throws TASK_INVALID when a turn cannot be given as text (an assistant turn, an image) or there is no user message:
 * a turn left out in silence would be another task.
 */
export function taskPrompt(task: Task): string {
  const { input } = task.responses_create_params;
  if (typeof input === "string") return checked(input);
  if (!input.some((turn) => turn.role === "user")) throw refused("has no user message");
  return checked(input.map((turn, index) => turnText(turn, index)).join("\n\n"));
}

function turnText(turn: { role: string; content: unknown }, index: number): string {
  const at = `[${index}]`;
  if (!PLAIN_ROLES.has(turn.role))
    throw refused(`${at} has role "${turn.role}"; allowed are system, developer, user`);
  if (typeof turn.content === "string") return turn.content;
  if (!Array.isArray(turn.content)) throw refused(`${at} content is neither text nor parts`);
  return turn.content.map((part: unknown) => partText(part, at)).join("\n");
}

function partText(part: unknown, at: string): string {
  if (typeof part === "object" && part !== null && "type" in part && "text" in part) {
    if (TEXT_PARTS.has(String(part.type)) && typeof part.text === "string") return part.text;
  }
  throw refused(`${at} holds a part that is no text; allowed are text and input_text`);
}

function checked(prompt: string): string {
  if (prompt.trim() === "") throw refused("is empty");
  if (prompt.includes("\0")) throw refused("holds a NUL byte");
  return prompt;
}

function refused(what: string): AgentHarnessError {
  return new AgentHarnessError("TASK_INVALID", `responses_create_params.input ${what}`);
}
