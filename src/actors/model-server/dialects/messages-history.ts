/** The `messages` array as conversation turns. */
import type { ConversationMessage, ServedToolCall } from "../../../capture/index.js";
import { RequestError } from "../request-error.js";
import {
  blockText,
  Content,
  contentText,
  type MessagesBody,
  stringField,
} from "./messages-body.js";

type Message = MessagesBody["messages"][number];
type Block = Exclude<Content, string>[number];

/**
 * Several messages of the assistant in a row are one turn, as the API defines; other turns stay apart, and a tool
 * result is a turn of its own.
 *
 * @throws RequestError 400 when the last turn is the assistant's: an answer cannot be continued.
 */
export function conversationMessages(request: MessagesBody): ConversationMessage[] {
  const turns: ConversationMessage[] = [];
  request.messages.forEach((message, index) => {
    const path = `messages.${index}.content`;
    if (message.role === "assistant") addAssistant(turns, message.content, path);
    else addPlain(turns, message.role, message.content, path);
  });
  if (turns.at(-1)?.role === "assistant")
    throw new RequestError(
      400,
      `messages.${request.messages.length - 1}.role: the last message must not be the assistant's`,
    );
  return turns;
}

function addPlain(
  turns: ConversationMessage[],
  role: Exclude<Message["role"], "assistant">,
  content: Content,
  path: string,
): void {
  const texts: string[] = [];
  const flush = () => {
    if (texts.length > 0) turns.push({ role, text: texts.join("\n") });
    texts.length = 0;
  };
  if (typeof content === "string" || content.length === 0) {
    turns.push({ role, text: contentText(content, path) });
    return;
  }
  content.forEach((block, index) => {
    const at = `${path}.${index}`;
    if (block.type !== "tool_result") {
      texts.push(blockText(block, at));
      return;
    }
    flush();
    turns.push({
      role: "tool",
      toolCallId: stringField(block, "tool_use_id", at),
      text: resultText(block, `${at}.content`),
      isError: block["is_error"] === true,
    });
  });
  flush();
}

function resultText(block: Block, path: string): string {
  const content = Content.optional().safeParse(block["content"]);
  if (!content.success)
    throw new RequestError(400, `${path}: must be a string or an array of blocks with a type`);
  return contentText(content.data ?? "", path);
}

function addAssistant(turns: ConversationMessage[], content: Content, path: string): void {
  const blocks: readonly Block[] =
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
    else if (block.type !== "redacted_thinking") text += blockText(block, at);
  });
  const before = turns.at(-1);
  if (before?.role === "assistant") {
    turns.pop();
    text = before.text + text;
    reasoning = (before.reasoning ?? "") + reasoning;
    toolCalls.unshift(...before.toolCalls);
  }
  turns.push({ role: "assistant", text, ...(reasoning === "" ? {} : { reasoning }), toolCalls });
}
