/** The three dialects as their clients use them: where to post, how to read an answer, how to go on. */
import { parseEvents, readMessage } from "./messages-stream.js";
import { readChat, readResponse } from "./openai-stream.js";

// Wire data is read as it comes; a wrong shape fails the test that reads it.
// biome-ignore lint/suspicious/noExplicitAny: the tests are the types
type WireObject = Record<string, any>;

export interface WireAnswer {
  /** Id of the served message. */
  readonly id: string;
  readonly toolIds: readonly string[];
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly raw: WireObject;
}

export interface WireDialect {
  readonly name: "messages" | "chat" | "responses";
  readonly path: string;
  /** A request with a system prompt, one tool and one user turn. */
  request(model: string, task: string, more?: object): WireObject;
  /** The whole answer, read from JSON or from a stream. */
  read(text: string, streamed: boolean): WireAnswer;
  /** The request after the answer: its echo, a result for each tool call, else a user turn. */
  next(request: WireObject, answer: WireAnswer, result: string): WireObject;
  /** Code and message of an error body. */
  error(body: WireObject): { type: string; message: string };
}

const PARAMETERS = {
  type: "object",
  properties: { command: { type: "string" } },
  required: ["command"],
};
const TOOL = { name: "Bash", description: "run" };

const messages: WireDialect = {
  name: "messages",
  path: "/v1/messages",
  request: (model, task, more = {}) => ({
    model,
    max_tokens: 64,
    system: "agent",
    tools: [{ ...TOOL, input_schema: PARAMETERS }],
    messages: [{ role: "user", content: task }],
    ...more,
  }),
  read(text, streamed) {
    const raw: WireObject = streamed ? readMessage(parseEvents(text)) : JSON.parse(text);
    const content = raw["content"] as WireObject[];
    return {
      id: raw["id"],
      toolIds: content.filter((b) => b["type"] === "tool_use").map((b) => b["id"]),
      inputTokens: raw["usage"].input_tokens,
      outputTokens: raw["usage"].output_tokens,
      raw,
    };
  },
  next(request, { raw, toolIds }, result) {
    const content = toolIds.map((id) => ({
      type: "tool_result",
      tool_use_id: id,
      content: result,
    }));
    const turns = [
      { role: "assistant", content: raw["content"] },
      { role: "user", content: toolIds.length > 0 ? content : result },
    ];
    return { ...request, messages: [...request["messages"], ...turns] };
  },
  error: (body) => body["error"],
};

const chat: WireDialect = {
  name: "chat",
  path: "/v1/chat/completions",
  request: (model, task, more = {}) => ({
    model,
    max_completion_tokens: 64,
    tools: [{ type: "function", function: { ...TOOL, parameters: PARAMETERS } }],
    messages: [
      { role: "system", content: "agent" },
      { role: "user", content: task },
    ],
    stream_options: { include_usage: true },
    ...more,
  }),
  read(text, streamed) {
    const raw: WireObject = streamed ? readChat(text, true) : JSON.parse(text);
    const { message } = raw["choices"][0];
    return {
      id: raw["id"],
      toolIds: ((message.tool_calls ?? []) as WireObject[]).map((call) => call["id"]),
      inputTokens: raw["usage"].prompt_tokens,
      outputTokens: raw["usage"].completion_tokens,
      raw,
    };
  },
  next(request, { raw, toolIds }, result) {
    const results = toolIds.map((id) => ({ role: "tool", tool_call_id: id, content: result }));
    const after = toolIds.length > 0 ? results : [{ role: "user", content: result }];
    return {
      ...request,
      messages: [...request["messages"], raw["choices"][0].message, ...after],
    };
  },
  error: (body) => body["error"],
};

const responses: WireDialect = {
  name: "responses",
  path: "/v1/responses",
  request: (model, task, more = {}) => ({
    model,
    max_output_tokens: 64,
    instructions: "agent",
    tools: [{ type: "function", ...TOOL, parameters: PARAMETERS }],
    input: [{ role: "user", content: task }],
    ...more,
  }),
  read(text, streamed) {
    const raw: WireObject = streamed ? readResponse(text) : JSON.parse(text);
    const output = raw["output"] as WireObject[];
    const message = output.find((item) => item["type"] === "message");
    return {
      id: message?.["id"] ?? String(raw["id"]).replace("resp_", "msg_"),
      toolIds: output.filter((i) => i["type"] === "function_call").map((i) => i["call_id"]),
      inputTokens: raw["usage"].input_tokens,
      outputTokens: raw["usage"].output_tokens,
      raw,
    };
  },
  next(request, { raw, toolIds }, result) {
    const results = toolIds.map((id) => ({
      type: "function_call_output",
      call_id: id,
      output: result,
    }));
    const after = toolIds.length > 0 ? results : [{ role: "user", content: result }];
    return { ...request, input: [...request["input"], ...raw["output"], ...after] };
  },
  error: (body) => body["error"],
};

export const WIRE_DIALECTS = { messages, chat, responses } as const;

/** The dialect that serves a recorded path. */
export function wireDialectOf(path: string): WireDialect {
  const found = Object.values(WIRE_DIALECTS).find((one) => path.split("?")[0]?.endsWith(one.path));
  if (found === undefined) throw new Error(`no dialect serves ${path}`);
  return found;
}

export async function post(
  base: string,
  dialect: WireDialect,
  body: unknown,
  headers: Record<string, string>,
  signal?: AbortSignal,
): Promise<Response> {
  return fetch(base + dialect.path, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: typeof body === "string" ? body : JSON.stringify(body),
    ...(signal === undefined ? {} : { signal }),
  });
}
