/** The `messages` array as conversation turns. */
import type { ConversationMessage, ServedToolCall } from "../../../capture/index.js";
import { RequestError } from "../request-error.js";
import { Content, contentText, type Part, partText, stringField } from "./body.js";
import type { MessagesBody } from "./messages-body.js";
import { ConversationTurns } from "./turns.js";

/**
 * A tool result is a turn of its own; text blocks beside it stay in order.
 *
 * @throws RequestError 400 when the last turn is the assistant's.
 */
export function conversationMessages(request: MessagesBody): readonly ConversationMessage[] {
  const turns = new ConversationTurns();
  request.messages.forEach((message, index) => {
    const path = `messages.${index}.content`;
    if (message.role === "assistant") addAssistant(turns, message.content, path);
    else addPlain(turns, message.role, message.content, path);
  });
  return turns.finish(`messages.${request.messages.length - 1}.role`);
}

function addPlain(
  turns: ConversationTurns,
  role: "system" | "user",
  content: Content,
  path: string,
): void {
  const texts: string[] = [];
  const flush = () => {
    if (texts.length > 0) turns.plain(role, texts.join("\n"));
    texts.length = 0;
  };
  if (typeof content === "string" || content.length === 0) {
    turns.plain(role, contentText(content, path));
    return;
  }
  content.forEach((block, index) => {
    const at = `${path}.${index}`;
    if (block.type !== "tool_result") {
      texts.push(partText(block, at));
      return;
    }
    flush();
    const id = stringField(block, "tool_use_id", at);
    turns.toolResult(id, resultText(block, `${at}.content`), block["is_error"] === true);
  });
  flush();
}

function resultText(block: Part, path: string): string {
  const content = Content.optional().safeParse(block["content"]);
  if (!content.success)
    throw new RequestError(400, `${path}: must be a string or an array of parts with a type`);
  return contentText(content.data ?? "", path);
}

function addAssistant(turns: ConversationTurns, content: Content, path: string): void {
  const blocks: readonly Part[] =
    typeof content === "string" ? [{ type: "text", text: content }] : content;
  let text = "";
  let reasoning = "";
  const toolCalls: ServedToolCall[] = [];
  blocks.forEach((block, index) => {
    const at = `${path}.${index}`;
    if (block.type === "thinking") reasoning += stringField(block, "thinking", at);
    else if (block.type === "tool_use")
      toolCalls.push({
        id: stringField(block, "id", at),
        name: stringField(block, "name", at),
        arguments: block["input"] ?? {},
      });
    else if (block.type !== "redacted_thinking") text += partText(block, at);
  });
  turns.assistant({ text, reasoning, toolCalls });
}
