import { Template } from "@huggingface/jinja";
import { loadQwen3Vocabulary, qwen3ChatTemplate } from "../../src/embedded-policy/index.js";

/** A chat message as the Qwen3 template takes it. */
export interface ChatMessage {
  readonly role: string;
  readonly content: string;
  readonly tool_calls?: readonly { function: { name: string; arguments: unknown } }[];
}

let template: Template | undefined;

/** Rendered prompt text. */
function renderPrompt(messages: readonly ChatMessage[], tools: readonly unknown[]): string {
  template ??= new Template(qwen3ChatTemplate());
  return template.render({
    messages,
    ...(tools.length > 0 && { tools }),
    add_generation_prompt: true,
    enable_thinking: false,
  });
}

/** Ids of a rendered prompt in which contents are ordinary text: specials come from the template only. */
export async function promptIds(
  messages: readonly ChatMessage[],
  tools: readonly unknown[] = claudeTools,
): Promise<Int32Array> {
  const vocabulary = await loadQwen3Vocabulary();
  const hidden: string[] = [];
  const hide = (content: string) => {
    if (!vocabulary.spellsSpecial(content)) return content;
    hidden.push(content);
    return `\uF8FF${hidden.length - 1}\uF8FF`;
  };
  const marked = messages.map((m) => ({ ...m, content: hide(m.content) }));
  const parts = renderPrompt(marked, tools).split(/\uF8FF(\d+)\uF8FF/);
  const runs = await Promise.all(
    parts.map((part, i) =>
      i % 2 === 0 ? vocabulary.encode(part) : vocabulary.encodeOrdinary(hidden[Number(part)] ?? ""),
    ),
  );
  return Int32Array.from(runs.flatMap((run) => [...run]));
}

export function fn(name: string, properties: object, required: readonly string[]) {
  return {
    type: "function",
    function: { name, description: "x", parameters: { type: "object", properties, required } },
  };
}

const text = { type: "string" };

/** The four tools of Claude Code, as the model server hands them to the template. */
export const claudeTools = [
  fn("Bash", { command: text, timeout: { type: "number" } }, ["command"]),
  fn("Read", { file_path: text, offset: { type: "number" } }, ["file_path"]),
  fn("Write", { file_path: text, content: text }, ["file_path", "content"]),
  fn(
    "Edit",
    { file_path: text, old_string: text, new_string: text, replace_all: { type: "boolean" } },
    ["file_path", "old_string", "new_string"],
  ),
];

export const systemMessage: ChatMessage = {
  role: "system",
  content: "You are an agent.\n\n# Environment\n - Primary working directory: /tmp/run-1/w\n",
};

export function toolCall(name: string, args: unknown): ChatMessage {
  return { role: "assistant", content: "", tool_calls: [{ function: { name, arguments: args } }] };
}
