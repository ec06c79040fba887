/**
 * Conversations as the Qwen3 chat template wants them: every content a string (null or parts make it throw), arguments
 * as the text that `tojson` would give, `reasoning_content` always present (else the template looks for `</think>` in
 * the content and takes it apart).
 */
import { Template } from "@huggingface/jinja";
import type {
  AssistantTurn,
  ConversationMessage,
  ToolSpecification,
} from "../../../capture/index.js";

export type TemplateMessage =
  | { readonly role: "system" | "user" | "tool"; readonly content: string }
  | {
      readonly role: "assistant";
      readonly content: string;
      readonly reasoning_content: string;
      readonly tool_calls: readonly TemplateToolCall[];
    };

interface TemplateToolCall {
  readonly type: "function";
  readonly function: { readonly name: string; readonly arguments: string };
}

const json = new Template("{{ value | tojson }}");

/** JSON text exactly as the template's `tojson` writes it. */
export function templateJson(value: unknown): string {
  return json.render({ value });
}

export function templateTool(tool: ToolSpecification): unknown {
  const { name, description, parameters } = tool;
  return { type: "function", function: { name, description, parameters } };
}

/** `guard` is applied to every string that came from outside; it may replace the string. */
export function templateMessage(
  message: ConversationMessage,
  guard: (text: string) => string,
): TemplateMessage {
  if (message.role === "assistant") return assistantMessage(message, guard);
  return { role: message.role, content: guard(message.text) };
}

function assistantMessage(turn: AssistantTurn, guard: (text: string) => string): TemplateMessage {
  return {
    role: "assistant",
    content: guard(turn.text),
    reasoning_content: guard(turn.reasoning ?? ""),
    tool_calls: turn.toolCalls.map((call) => ({
      type: "function",
      function: { name: guard(call.name), arguments: guard(templateJson(call.arguments)) },
    })),
  };
}
