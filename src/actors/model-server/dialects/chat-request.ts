/**
 * Chat Completions bodies into conversations.
 *
 * O1. The first system or developer message is the system prompt, as in the other dialects; later ones are turns.
 * O2. Unknown keys and tools that are no functions leave no trace; a wrong type is refused with the path of its field.
 * O3. Arguments that are no JSON object are kept as their text, never refused and never evaluated.
 */
import type { IncomingHttpHeaders } from "node:http";
import { z } from "zod";
import type { ToolSpecification } from "../../../capture/index.js";
import { givenSampling, type ModelRequest } from "../model-request.js";
import { Content, checkedBody, contentText, Seed, stringField, toolArguments } from "./body.js";
import {
  FunctionSpecification,
  NO_PARAMETERS,
  OPENAI_TOOL_CALL_PREFIX,
  openAiPurpose,
  openAiToolChoice,
} from "./openai.js";
import { ConversationTurns } from "./turns.js";

const Message = z.looseObject({
  role: z.enum(["system", "developer", "user", "assistant", "tool"]),
  content: Content.nullish(),
  reasoning_content: z.string().nullish(),
  tool_calls: z
    .array(
      z.looseObject({
        id: z.string().min(1),
        function: z.looseObject({ name: z.string(), arguments: z.string() }).optional(),
      }),
    )
    .nullish(),
});
type Message = z.infer<typeof Message>;

const tokens = z.number().int().min(1).nullish();

const ChatBody = z.looseObject({
  model: z.string().min(1),
  messages: z.array(Message).min(1),
  tools: z
    .array(z.looseObject({ type: z.string().optional(), function: z.unknown().optional() }))
    .nullish(),
  tool_choice: z.union([z.string(), z.looseObject({})]).nullish(),
  stream: z.boolean().nullish(),
  stream_options: z.looseObject({ include_usage: z.boolean().nullish() }).nullish(),
  n: z.literal(1, { error: "must be 1: one call is one answer" }).nullish(),
  logprobs: z.boolean().nullish(),
  stop: z.union([z.string(), z.array(z.string())]).nullish(),
  max_tokens: tokens,
  max_completion_tokens: tokens,
  temperature: z.number().min(0).nullish(),
  top_p: z.number().gt(0).max(1).nullish(),
  seed: Seed.nullish(),
});
type ChatBody = z.infer<typeof ChatBody>;

export interface ChatRequest extends ModelRequest {
  readonly includeUsage: boolean;
}

/** @throws RequestError 400 naming the field that is wrong. */
export function parseChatRequest(body: unknown, headers: IncomingHttpHeaders): ChatRequest {
  const request = checkedBody(ChatBody, body);
  const { temperature, top_p, seed, stop } = request;
  const max_tokens = request.max_completion_tokens ?? request.max_tokens;
  const tools = toolSpecifications(request);
  const conversation = { model: request.model, tools, ...turnsOf(request.messages) };
  return {
    conversation,
    stream: request.stream ?? false,
    includeUsage: request.stream_options?.include_usage ?? false,
    sampling: givenSampling({ temperature, top_p, max_tokens, seed }),
    stopSequences: (typeof stop === "string" ? [stop] : (stop ?? [])).filter((text) => text !== ""),
    toolChoice: openAiToolChoice(request.tool_choice),
    wantsLogprobs: request.logprobs ?? false,
    idPrefixes: { message: "chatcmpl-", toolCall: OPENAI_TOOL_CALL_PREFIX },
    purpose: openAiPurpose(conversation, request.tools?.length ?? 0, headers),
  };
}

/** O2. */
function toolSpecifications(request: ChatBody): ToolSpecification[] {
  return (request.tools ?? []).flatMap((tool, index) => {
    if (tool.type !== "function") return [];
    const path = `tools.${index}.function`;
    const { name, description, parameters } = checkedBody(
      FunctionSpecification,
      tool.function,
      path,
    );
    return [{ name, description: description ?? "", parameters: parameters ?? NO_PARAMETERS }];
  });
}

function turnsOf(messages: readonly Message[]) {
  const [first] = messages;
  const hasSystem = first?.role === "system" || first?.role === "developer"; // O1
  const turns = new ConversationTurns();
  messages.forEach((message, index) => {
    if (index > 0 || !hasSystem) addTurn(turns, message, `messages.${index}`);
  });
  return {
    system: hasSystem ? contentText(first.content ?? "", "messages.0.content") : "",
    messages: turns.finish(`messages.${messages.length - 1}.role`),
  };
}

function addTurn(turns: ConversationTurns, message: Message, path: string): void {
  const { role, content } = message;
  const at = `${path}.content`;
  switch (role) {
    case "system":
    case "developer":
      turns.plain("system", contentText(content ?? "", at));
      return;
    case "user":
      turns.plain("user", contentText(content ?? "", at));
      return;
    case "tool":
      turns.toolResult(stringField(message, "tool_call_id", path), contentText(content ?? "", at));
      return;
    case "assistant":
      turns.assistant({
        text: contentText(content ?? "", at, ""),
        reasoning: message.reasoning_content ?? "",
        toolCalls: (message.tool_calls ?? []).map((call) => ({
          id: call.id,
          name: call.function?.name ?? "",
          arguments: toolArguments(call.function?.arguments ?? ""), // O3
        })),
      });
  }
}
