/**
 * Answers of the Messages dialect: JSON and server-sent events.
 *
 * W1. Events follow the grammar `message_start (block_start block_delta+ block_stop)* message_delta message_stop`;
 *     a block closes before the next opens, ids are equal in every event, arguments are sent exactly once.
 * W2. Thinking comes first and text before tool use: Claude Code moves text that follows.
 * W3. A thinking block has a signature that is not empty: Claude Code sends back an empty one as if there were none.
 */
import type { ReplyHead, ServedReply } from "../model-request.js";
import { serverSentEvent } from "../sse.js";

type ContentBlock =
  | { readonly type: "thinking"; readonly thinking: string; readonly signature: string }
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
    stop_sequence: reply.stopSequence,
    usage: usage(reply.inputTokens, reply.outputTokens),
  };
}

export function streamHead(head: ReplyHead): string {
  const start = {
    ...message(head),
    content: [],
    stop_reason: null,
    stop_sequence: null,
    usage: usage(head.inputTokens, 0),
  };
  return serverSentEvent("message_start", { type: "message_start", message: start });
}

export function streamBody(reply: ServedReply): string {
  const blocks = contentBlocks(reply).map((block, index) => blockEvents(block, index));
  const delta = { stop_reason: stopReason(reply), stop_sequence: reply.stopSequence };
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

function message(head: ReplyHead): object {
  const { messageId, model } = head;
  return { id: messageId, type: "message", role: "assistant", model };
}

/** W2. */
function contentBlocks(reply: ServedReply): ContentBlock[] {
  const { messageId, reasoning, text, toolCalls } = reply;
  const signature = Buffer.from(messageId).toString("base64"); // W3
  return [
    ...(reasoning === "" ? [] : [{ type: "thinking" as const, thinking: reasoning, signature }]),
    ...(text === "" ? [] : [{ type: "text" as const, text }]),
    ...toolCalls.map((call) => ({
      type: "tool_use" as const,
      id: call.id,
      name: call.name,
      input: call.arguments,
    })),
  ];
}

/** W1. */
function blockEvents(block: ContentBlock, index: number): string {
  const { opened, deltas } = blockParts(block);
  return [
    serverSentEvent("content_block_start", {
      type: "content_block_start",
      index,
      content_block: opened,
    }),
    ...deltas.map((delta) =>
      serverSentEvent("content_block_delta", { type: "content_block_delta", index, delta }),
    ),
    serverSentEvent("content_block_stop", { type: "content_block_stop", index }),
  ].join("");
}

function blockParts(block: ContentBlock): { opened: object; deltas: readonly object[] } {
  switch (block.type) {
    case "thinking":
      return {
        opened: { type: "thinking", thinking: "", signature: "" },
        deltas: [
          { type: "thinking_delta", thinking: block.thinking },
          { type: "signature_delta", signature: block.signature },
        ],
      };
    case "text":
      return {
        opened: { type: "text", text: "" },
        deltas: [{ type: "text_delta", text: block.text }],
      };
    case "tool_use":
      return {
        opened: { type: "tool_use", id: block.id, name: block.name, input: {} },
        deltas: [{ type: "input_json_delta", partial_json: JSON.stringify(block.input) }],
      };
  }
}

function stopReason(reply: ServedReply): string {
  if (reply.stopSequence !== null) return "stop_sequence";
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
