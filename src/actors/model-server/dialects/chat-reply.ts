/**
 * Answers of Chat Completions: JSON and chunks.
 *
 * O4. One id in every chunk; each tool call is sent once, whole; the chunk with the finish reason is the last with a
 *     choice; nothing follows an error, not even `[DONE]`.
 * O5. `content` is null only when there is none; `finish_reason` is `tool_calls` exactly when there are tool calls and
 *     the answer was not cut.
 */
import type { ReplyHead, ServedReply } from "../model-request.js";
import type { RequestError } from "../request-error.js";
import { dataEvent, SSE_COMMENT } from "../sse.js";
import type { StreamWriter } from "./dialect.js";
import { argumentsText, openAiError } from "./openai.js";

export function chatJson(reply: ServedReply): unknown {
  const { reasoning, text } = reply;
  const calls = toolCalls(reply);
  const message = {
    role: "assistant",
    content: text === "" && calls.length > 0 ? null : text, // O5
    refusal: null,
    ...(reasoning === "" ? {} : { reasoning_content: reasoning }),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
  };
  const choice = {
    index: 0,
    message,
    logprobs: logprobs(reply),
    finish_reason: finishReason(reply),
  };
  return { ...frame(reply, "chat.completion"), choices: [choice], usage: usage(reply) };
}

/** @param includeUsage The request asked for a last chunk with the usage. */
export function chatStream(includeUsage: boolean): StreamWriter {
  const chunk = (head: ReplyHead, delta: object, finish: string | null, tokens: object | null) =>
    dataEvent({
      ...frame(head, "chat.completion.chunk"),
      choices: [{ index: 0, delta, logprobs: tokens, finish_reason: finish }],
      ...(includeUsage ? { usage: null } : {}),
    });
  return {
    head: (head) => chunk(head, { role: "assistant", content: "" }, null, null),
    keepAlive: () => SSE_COMMENT,
    body(reply) {
      const deltas = deltasOf(reply);
      const tokens = logprobs(reply);
      return [
        // Which delta shows the tokens is not said anywhere; the first has all of them.
        ...deltas.map((delta, index) => chunk(reply, delta, null, index === 0 ? tokens : null)),
        chunk(reply, {}, finishReason(reply), deltas.length === 0 ? tokens : null), // O4
        includeUsage
          ? dataEvent({
              ...frame(reply, "chat.completion.chunk"),
              choices: [],
              usage: usage(reply),
            })
          : "",
        "data: [DONE]\n\n",
      ].join("");
    },
    error: (error: RequestError) => dataEvent({ error: openAiError(error) }),
  };
}

function frame({ messageId, model, createdAtS }: ReplyHead, object: string): object {
  return { id: messageId, object, created: createdAtS, model };
}

function deltasOf(reply: ServedReply): object[] {
  const { reasoning, text } = reply;
  return [
    ...(reasoning === "" ? [] : [{ reasoning_content: reasoning }]),
    ...(text === "" ? [] : [{ content: text }]),
    ...toolCalls(reply).map((call, index) => ({ tool_calls: [{ index, ...call }] })),
  ];
}

function toolCalls(reply: ServedReply) {
  return reply.toolCalls.map((call) => ({
    id: call.id,
    type: "function",
    function: { name: call.name, arguments: argumentsText(call) },
  }));
}

function finishReason(reply: ServedReply): string {
  if (reply.finishReason === "length") return "length";
  return reply.toolCalls.length > 0 ? "tool_calls" : "stop";
}

/** Every generated token, those of tool calls and of the end of the turn too. */
function logprobs({ tokens }: ServedReply): object | null {
  if (tokens === null) return null;
  const content = tokens.map(({ text, logProb }) => ({
    token: text,
    logprob: logProb,
    bytes: text.includes("\ufffd") ? null : [...Buffer.from(text)],
    top_logprobs: [],
  }));
  return { content, refusal: null };
}

/** True counts. Nothing is cached on behalf of the client. */
function usage({ inputTokens, outputTokens }: ServedReply): object {
  return {
    prompt_tokens: inputTokens,
    completion_tokens: outputTokens,
    total_tokens: inputTokens + outputTokens,
    prompt_tokens_details: { cached_tokens: 0 },
  };
}
