/**
 * Conversations as chat templates want them: every content a string (null or parts make them throw), arguments in the
 * family's form, `reasoning_content` always present (else Qwen3's looks for `</think>` in the content and takes it
 * apart).
 */
import { Template } from "@huggingface/jinja";
import type {
  AssistantTurn,
  ConversationMessage,
  ToolSpecification,
} from "../../../capture/index.js";
import type { Family } from "./families.js";

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
  readonly function: { readonly name: string; readonly arguments: unknown };
}

const json = new Template("{{ value | tojson }}");

/** JSON text exactly as the template's `tojson` writes it. */
export function templateJson(value: unknown): string {
  return json.render({ value });
}

/** Applied to whatever came from outside; each may return a replacement. */
export interface Guards {
  /** A string that the template writes as it is. */
  readonly text: (text: string) => string;
  /** A tool result, which some templates write through `tojson`. */
  readonly toolText: (text: string) => string;
  /** A JSON value that the template takes apart or writes through `tojson`. */
  readonly value: (value: unknown) => unknown;
}

export function templateTool(tool: ToolSpecification, guards: Guards): unknown {
  const { name, description, parameters } = tool;
  return guards.value({ type: "function", function: { name, description, parameters } });
}

export function templateMessage(
  message: ConversationMessage,
  guards: Guards,
  argumentsForm: Family["argumentsForm"],
): TemplateMessage {
  if (message.role === "assistant") return assistantMessage(message, guards, argumentsForm);
  const guard = message.role === "tool" ? guards.toolText : guards.text;
  return { role: message.role, content: guard(message.text) };
}

function assistantMessage(
  turn: AssistantTurn,
  guards: Guards,
  argumentsForm: Family["argumentsForm"],
): TemplateMessage {
  return {
    role: "assistant",
    content: guards.text(turn.text),
    reasoning_content: guards.text(turn.reasoning ?? ""),
    tool_calls: turn.toolCalls.map((call) => ({
      type: "function",
      function: {
        name: guards.text(call.name),
        arguments:
          argumentsForm === "json"
            ? guards.text(templateJson(call.arguments))
            : guards.value(call.arguments),
      },
    })),
  };
}

/** The value with each string in it, keys included, given to `replace`. */
export function mapStrings(value: unknown, replace: (text: string) => string): unknown {
  if (typeof value === "string") return replace(value);
  if (Array.isArray(value)) return value.map((item) => mapStrings(item, replace));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [replace(key), mapStrings(item, replace)]),
  );
}
