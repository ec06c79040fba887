/**
 * Answers of the Messages dialect: JSON and server-sent events.
 *
 * W1. Events follow the grammar `message_start (block_start block_delta block_stop)* message_delta message_stop`;
 *     a block closes before the next opens, ids are equal in every event, arguments are sent exactly once.
 * W2. Text comes before tool use: Claude Code moves text that follows.
 */
import type { ReplyHead, ServedReply } from "../model-request.js";
import { serverSentEvent } from "../sse.js";

type ContentBlock =
  | { readonly type: "text"; readonly text: string }
  | {
      readonly type: "tool_use";
      readonly id: string;
      readonly name: string;
      readonly input: unknown;
    };

export const PING = serverSentEvent("ping", { type: "ping" });

export function messagesJson(reply: ServedReply): unknown {
  return {
    ...message(reply),
    content: contentBlocks(reply),
    stop_reason: stopReason(reply),
    usage: usage(reply.inputTokens, reply.outputTokens),
  };
}

export function streamHead(head: ReplyHead): string {
  const start = {
    ...message(head),
    content: [],
    stop_reason: null,
    usage: usage(head.inputTokens, 0),
  };
  return serverSentEvent("message_start", { type: "message_start", message: start });
}

export function streamBody(reply: ServedReply): string {
  const blocks = contentBlocks(reply).map((block, index) => blockEvents(block, index));
  const delta = { stop_reason: stopReason(reply), stop_sequence: null };
  return [
    ...blocks,
    serverSentEvent("message_delta", {
      type: "message_delta",
      delta,
      usage: usage(reply.inputTokens, reply.outputTokens),
    }),
    serverSentEvent("message_stop", { type: "message_stop" }),
  ].join("");
}

export function streamError(errorBody: unknown): string {
  return serverSentEvent("error", errorBody);
}

function message(head: ReplyHead): object {
  const { messageId, model } = head;
  return { id: messageId, type: "message", role: "assistant", model, stop_sequence: null };
}

function contentBlocks(reply: ServedReply): ContentBlock[] {
  const text: ContentBlock[] = reply.text === "" ? [] : [{ type: "text", text: reply.text }];
  const tools = reply.toolCalls.map(
    (call): ContentBlock => ({
      type: "tool_use",
      id: call.id,
      name: call.name,
      input: call.arguments,
    }),
  );
  return [...text, ...tools]; // W2
}

/** W1. */
function blockEvents(block: ContentBlock, index: number): string {
  const [opened, delta] =
    block.type === "text"
      ? [
          { type: "text", text: "" },
          { type: "text_delta", text: block.text },
        ]
      : [
          { type: "tool_use", id: block.id, name: block.name, input: {} },
          { type: "input_json_delta", partial_json: JSON.stringify(block.input) },
        ];
  return [
    serverSentEvent("content_block_start", {
      type: "content_block_start",
      index,
      content_block: opened,
    }),
    serverSentEvent("content_block_delta", { type: "content_block_delta", index, delta }),
    serverSentEvent("content_block_stop", { type: "content_block_stop", index }),
  ].join("");
}

function stopReason(reply: ServedReply): string {
  if (reply.finishReason === "length") return "max_tokens";
  return reply.toolCalls.length > 0 ? "tool_use" : "end_turn";
}

/** True counts: Claude Code steers compaction by them. Nothing is cached on behalf of the client. */
function usage(inputTokens: number, outputTokens: number): object {
  return {
    input_tokens: inputTokens,
    output_tokens: outputTokens,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: 0,
  };
}
