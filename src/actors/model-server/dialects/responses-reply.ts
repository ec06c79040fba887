/**
 * Answers of the Responses dialect: JSON and server-sent events.
 *
 * R5. Every id is equal in every event and in the final response; every item is opened and closed before the next;
 *     arguments are sent exactly once as a delta. Codex and the OpenAI client both wait for each of the closing events.
 * R6. An answer cut by its token limit ends with `response.incomplete`, a failed one with `response.failed`, and nothing
 *     follows either.
 * R7. `response.in_progress` is the sign of life: Codex does not count comments once a response was created.
 */
import type { ReplyHead, ServedReply } from "../model-request.js";
import type { RequestError } from "../request-error.js";
import { SSE_COMMENT, serverSentEvent } from "../sse.js";
import type { StreamWriter } from "./dialect.js";
import { idLike, openAiError } from "./openai.js";
import { itemEvents, type ResponseItem, responseItems } from "./responses-items.js";
import type { ResponsesBody } from "./responses-request.js";

export function responsesJson(asked: ResponsesBody, reply: ServedReply): unknown {
  return finalResponse(asked, reply, responseItems(reply));
}

export class ResponsesStream implements StreamWriter {
  readonly #asked: ResponsesBody;
  #opened: object | null = null;
  #sequence = 0;

  constructor(asked: ResponsesBody) {
    this.#asked = asked;
  }

  head(head: ReplyHead): string {
    this.#opened = { ...frame(this.#asked, head), ...unfinished("in_progress") };
    return this.#event("response.created", { response: this.#opened }) + this.keepAlive();
  }

  /** R7. */
  keepAlive(): string {
    if (this.#opened === null) return SSE_COMMENT;
    return this.#event("response.in_progress", { response: this.#opened });
  }

  body(reply: ServedReply): string {
    const items = responseItems(reply);
    const events = items.flatMap((item, index) => itemEvents(item, index));
    const response = finalResponse(this.#asked, reply, items);
    const end = isCut(reply) ? "response.incomplete" : "response.completed"; // R6
    return [
      ...events.map(([type, fields]) => this.#event(type, fields)),
      this.#event(end, { response }),
    ].join("");
  }

  error(error: RequestError): string {
    const { message } = openAiError(error);
    const opened = this.#opened ?? {};
    const response = {
      ...opened,
      ...unfinished("failed"),
      error: { code: "server_error", message },
    };
    return this.#event("response.failed", { response });
  }

  #event(type: string, fields: object): string {
    return serverSentEvent(type, { type, sequence_number: this.#sequence++, ...fields });
  }
}

function isCut(reply: ServedReply): boolean {
  return reply.finishReason === "length";
}

function finalResponse(
  asked: ResponsesBody,
  reply: ServedReply,
  output: readonly ResponseItem[],
): object {
  return {
    ...frame(asked, reply),
    status: isCut(reply) ? "incomplete" : "completed",
    incomplete_details: isCut(reply) ? { reason: "max_output_tokens" } : null,
    error: null,
    output,
    usage: usage(reply),
  };
}

function unfinished(status: "in_progress" | "failed"): object {
  return { status, incomplete_details: null, error: null, output: [], usage: null };
}

/** What every event of a response repeats: its id, and what was asked. */
function frame(asked: ResponsesBody, { messageId, model, createdAtS }: ReplyHead): object {
  return {
    id: idLike(messageId, "resp_"),
    object: "response",
    created_at: createdAtS,
    model,
    instructions: asked.instructions ?? null,
    max_output_tokens: asked.max_output_tokens ?? null,
    metadata: asked.metadata ?? {},
    parallel_tool_calls: asked.parallel_tool_calls ?? true,
    previous_response_id: null,
    store: false,
    temperature: asked.temperature ?? 1,
    tool_choice: asked.tool_choice ?? "auto",
    tools: asked.tools ?? [],
    top_p: asked.top_p ?? 1,
  };
}

/** True counts. Nothing is cached on behalf of the client. */
function usage({ inputTokens, outputTokens }: ServedReply): object {
  return {
    input_tokens: inputTokens,
    input_tokens_details: { cached_tokens: 0 },
    output_tokens: outputTokens,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: inputTokens + outputTokens,
  };
}
