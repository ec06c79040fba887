/** Chat Completions as a client of it: for servers that render and parse by themselves. */
import type { ConversationMessage } from "../../../capture/index.js";
import type { ParsedToolCall, ParsedTurn } from "../renderers/renderer.js";
import type { ChatRequest } from "./engine.js";
import { arrayAt, objectAt, textAt } from "./upstream/json.js";
import { finishReasonOf } from "./vllm-wire.js";

type Json = Readonly<Record<string, unknown>>;

/** The part of a request body that says what is asked. */
export function chatBody({
  conversation: { system, tools, messages },
  stopSequences,
  toolChoice,
}: Pick<ChatRequest, "conversation" | "stopSequences" | "toolChoice">): Json {
  const all: readonly ConversationMessage[] =
    system === "" ? messages : [{ role: "system", text: system }, ...messages];
  return {
    messages: all.map(chatMessage),
    ...(tools.length === 0
      ? {}
      : {
          tools: tools.map((tool) => ({ type: "function", function: tool })),
          tool_choice:
            typeof toolChoice === "string"
              ? toolChoice
              : { type: "function", function: { name: toolChoice.name } },
        }),
    ...(stopSequences.length === 0 ? {} : { stop: stopSequences }),
  };
}

function chatMessage(message: ConversationMessage): Json {
  if (message.role === "tool")
    return { role: "tool", tool_call_id: message.toolCallId, content: message.text };
  if (message.role !== "assistant") return { role: message.role, content: message.text };
  const { text, reasoning, toolCalls } = message;
  return {
    role: "assistant",
    content: text,
    ...(reasoning === undefined ? {} : { reasoning_content: reasoning }),
    ...(toolCalls.length === 0
      ? {}
      : {
          tool_calls: toolCalls.map(({ id, name, arguments: input }) => ({
            id,
            type: "function",
            function: { name, arguments: JSON.stringify(input) },
          })),
        }),
  };
}

export interface ChatAnswer {
  readonly root: Json;
  readonly choice: Json;
  readonly turn: ParsedTurn;
  readonly finishReason: "stop" | "length";
  /** The requested text that ended the answer, where the server says so. */
  readonly stopSequence: string | null;
}

/** @throws ENGINE_FAILED on an abort, ENGINE_REPLY_INVALID when the answer is no chat completion. */
export function chatAnswer(reply: unknown, stopSequences: readonly string[]): ChatAnswer {
  const root = objectAt(reply, "answer");
  const choice = objectAt(arrayAt(root["choices"], "choices")[0], "choices.0");
  const message = objectAt(choice["message"], "choices.0.message");
  const reasoning = textAt(message["reasoning"]) ?? textAt(message["reasoning_content"]);
  const written = arrayAt(message["tool_calls"] ?? [], "tool_calls").map(readCall);
  // vLLM's name for it, and SGLang's.
  const endedBy = choice["stop_reason"] ?? choice["matched_stop"];
  const toolCalls = written.filter((call) => call !== null);
  return {
    root,
    choice,
    turn: {
      text: textAt(message["content"]) ?? "",
      toolCalls,
      reasoning: reasoning ?? "",
      ...(toolCalls.length === written.length
        ? {}
        : { malformedToolCalls: written.length - toolCalls.length }),
    },
    finishReason: finishReasonOf(choice["finish_reason"]),
    stopSequence: stopSequences.find((stop) => stop === endedBy) ?? null,
  };
}

/** A call whose arguments are no JSON object cannot be served in every dialect: it is dropped and counted. */
function readCall(value: unknown): ParsedToolCall | null {
  const { name, arguments: text } = objectAt(objectAt(value, "tool_call")["function"], "function");
  if (typeof name !== "string") return null;
  try {
    const input: unknown = JSON.parse(textAt(text) || "{}");
    return typeof input === "object" && input !== null && !Array.isArray(input)
      ? { name, arguments: input }
      : null;
  } catch {
    return null;
  }
}
