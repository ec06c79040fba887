/**
 * Responses bodies into conversations.
 *
 * R1. `instructions`, else the first message if it is a system or developer one, is the system prompt, as in the other
 *     dialects; later ones are turns.
 * R2. Unknown keys and tools that are no functions leave no trace; an item of an unknown type is named in its place, so
 *     that no content goes missing in silence; a wrong type is refused with the path of its field.
 * R3. Arguments that are no JSON object are kept as their text, never refused and never evaluated.
 * R4. No state is kept: a request that refers to an earlier response is refused.
 */
import type { IncomingHttpHeaders } from "node:http";
import { z } from "zod";
import type { ToolSpecification } from "../../../capture/index.js";
import { givenSampling, type ModelRequest } from "../model-request.js";
import { RequestError } from "../request-error.js";
import {
  Content,
  checkDepth,
  checkedBody,
  contentText,
  Seed,
  stringField,
  toolArguments,
} from "./body.js";
import {
  FunctionSpecification,
  NO_PARAMETERS,
  OPENAI_TOOL_CALL_PREFIX,
  openAiPurpose,
  openAiToolChoice,
} from "./openai.js";
import { ConversationTurns } from "./turns.js";

const Item = z.looseObject({ type: z.string().nullish() });
type Item = z.infer<typeof Item>;

const Message = z.looseObject({
  role: z.enum(["system", "developer", "user", "assistant"]),
  content: Content,
});

const ResponsesBody = z.looseObject({
  model: z.string().min(1),
  instructions: z.string().nullish(),
  input: z.union([z.string(), z.array(Item).min(1)]),
  tools: z.array(z.looseObject({ type: z.string() })).nullish(),
  tool_choice: z.union([z.string(), z.looseObject({})]).nullish(),
  parallel_tool_calls: z.boolean().nullish(),
  previous_response_id: z.null({ error: "must be null: no response is kept" }).optional(), // R4
  conversation: z.null({ error: "must be null: no conversation is kept" }).optional(),
  background: z.literal(false, { error: "must be false" }).nullish(),
  stream: z.boolean().nullish(),
  max_output_tokens: z.number().int().min(1).nullish(),
  temperature: z.number().min(0).nullish(),
  top_p: z.number().gt(0).max(1).nullish(),
  metadata: z.looseObject({}).nullish(),
  seed: Seed.nullish(),
});
export type ResponsesBody = z.infer<typeof ResponsesBody>;

export interface ResponsesRequest extends ModelRequest {
  /** What an answer repeats. */
  readonly asked: ResponsesBody;
}

/** @throws RequestError 400 naming the field that is wrong. */
export function parseResponsesRequest(
  body: unknown,
  headers: IncomingHttpHeaders,
): ResponsesRequest {
  const asked = checkedBody(ResponsesBody, body);
  for (const key of ["tools", "tool_choice", "metadata"] as const) checkDepth(asked[key], key);
  const { temperature, top_p, max_output_tokens, seed } = asked;
  const tools = toolSpecifications(asked);
  const conversation = { model: asked.model, tools, ...turnsOf(asked) };
  return {
    conversation,
    stream: asked.stream ?? false,
    asked,
    sampling: givenSampling({ temperature, top_p, max_tokens: max_output_tokens, seed }),
    stopSequences: [],
    toolChoice: openAiToolChoice(asked.tool_choice),
    wantsLogprobs: false,
    idPrefixes: { message: "msg_", toolCall: OPENAI_TOOL_CALL_PREFIX },
    purpose: openAiPurpose(conversation, asked.tools?.length ?? 0, headers),
  };
}

/** R2. */
function toolSpecifications(asked: ResponsesBody): ToolSpecification[] {
  return (asked.tools ?? []).flatMap((tool, index) => {
    if (tool.type !== "function") return [];
    const { name, description, parameters } = checkedBody(
      FunctionSpecification,
      tool,
      `tools.${index}`,
    );
    return [{ name, description: description ?? "", parameters: parameters ?? NO_PARAMETERS }];
  });
}

function turnsOf({ instructions, input }: ResponsesBody) {
  const items: readonly Item[] =
    typeof input === "string" ? [{ role: "user", content: input }] : input;
  const first = instructions ? null : leadingSystem(items[0]); // R1
  const turns = new ConversationTurns();
  items.forEach((item, index) => {
    if (index > 0 || first === null) addItem(turns, item, `input.${index}`);
  });
  return {
    system: instructions || (first ?? ""),
    messages: turns.finish(`input.${items.length - 1}`),
  };
}

function leadingSystem(item: Item | undefined): string | null {
  if (item === undefined || !isMessage(item)) return null;
  const { role, content } = checkedBody(Message, item, "input.0");
  if (role !== "system" && role !== "developer") return null;
  return contentText(content, "input.0.content");
}

/** A message may come without a type. */
function isMessage(item: Item): boolean {
  return item.type === "message" || ((item.type ?? null) === null && item["role"] !== undefined);
}

function addItem(turns: ConversationTurns, item: Item, path: string): void {
  if (isMessage(item)) {
    addMessage(turns, item, path);
    return;
  }
  const { type } = item;
  if (type === null || type === undefined)
    throw new RequestError(400, `${path}.type: must be a string`);
  switch (type) {
    case "function_call":
      turns.assistant({
        toolCalls: [
          {
            id: stringField(item, "call_id", path),
            name: stringField(item, "name", path),
            arguments: toolArguments(stringField(item, "arguments", path)), // R3
          },
        ],
      });
      return;
    case "function_call_output": {
      const at = `${path}.output`;
      const text = contentText(contentOf(item["output"], at), at);
      // Codex tells of a goal so: a result that no call asked for.
      if ((item["call_id"] ?? null) === null) turns.plain("user", text);
      else turns.toolResult(stringField(item, "call_id", path), text);
      return;
    }
    case "reasoning":
      turns.assistant({ reasoning: reasoningText(item, path) });
      return;
    default:
      turns.plain("user", `[${type} item]`); // R2
  }
}

function addMessage(turns: ConversationTurns, item: Item, path: string): void {
  const { role, content } = checkedBody(Message, item, path);
  const at = `${path}.content`;
  if (role === "assistant") turns.assistant({ text: contentText(content, at, "") });
  else turns.plain(role === "user" ? "user" : "system", contentText(content, at));
}

/** The summary; clients send back `content: null` or the raw reasoning beside it. */
function reasoningText(item: Item, path: string): string {
  const summary = contentText(contentOf(item["summary"] ?? [], `${path}.summary`), path, "");
  if (summary !== "") return summary;
  return contentText(contentOf(item["content"] ?? [], `${path}.content`), path, "");
}

function contentOf(value: unknown, path: string): Content {
  return checkedBody(Content, value, path);
}
