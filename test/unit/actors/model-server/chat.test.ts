import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { chatDialect } from "../../../../src/actors/model-server/dialects/chat.js";
import { RequestError } from "../../../../src/actors/model-server/request-error.js";
import { arbitraryReply } from "../../../support/arbitrary-reply.js";
import { recordedRequests } from "../../../support/model-server.js";
import { readChat } from "../../../support/openai-stream.js";

const user = { role: "user", content: "x" };
const open = (body: object, headers: Record<string, string> = {}) =>
  chatDialect.parse({ model: "m", messages: [user], ...body }, headers);
const parse = (...args: Parameters<typeof open>) => open(...args).request;

test("O1. the first system or developer message is the system prompt, a later one a turn", () => {
  for (const role of ["system", "developer"]) {
    const first = { role, content: [{ type: "text", text: "s" }] };
    const { conversation } = parse({ messages: [first, user, { role, content: "later" }] });
    expect(conversation.system).toBe("s");
    expect(conversation.messages).toEqual([
      { role: "user", text: "x" },
      { role: "system", text: "later" },
    ]);
  }
  expect(parse({ messages: [user] }).conversation.system).toBe("");
});

describe("O2. what is unknown leaves no trace, what is wrong is named", () => {
  test("unknown keys, tools that are no functions, null for absent", () => {
    const tools = [
      { type: "custom", custom: { name: "grep" } },
      { type: "function", function: { name: "a", strict: true } },
    ];
    const odd = { service_tier: "x", temperature: null, stop: null, stream_options: null };
    const { conversation, sampling } = parse({ ...odd, tools });
    expect(conversation.tools).toEqual([
      { name: "a", description: "", parameters: { type: "object", properties: {} } },
    ]);
    expect(sampling).toEqual({});
  });

  test.each([
    [{ n: 2 }, /^n: must be 1/],
    [{ messages: [] }, /^messages: /],
    [{ messages: [{ role: "narrator", content: "x" }] }, /^messages\.0\.role: /],
    [{ messages: [user, { role: "tool", content: "x" }] }, /^messages\.1\.tool_call_id: /],
    [{ messages: [user, { role: "assistant", content: "x" }] }, /^messages\.1\.role: /],
    [{ tools: [{ type: "function", function: {} }] }, /^tools\.0\.function\.name: /],
    [{ stream: "yes" }, /^stream: /],
    [{ max_tokens: 0 }, /^max_tokens: /],
  ])("%j", (body, message) => {
    expect(() => open(body)).toThrow(RequestError);
    expect(() => open(body)).toThrow(message);
  });
});

test("O3. arguments cut off mid-way, or no object, are kept as text, not refused (https://github.com/vllm-project/vllm/issues/55495)", () => {
  const histories = ['{"cmd": "timeout 7', "[1]", "", '{"a":1}'].map((text, index) => ({
    id: `call_${index}`,
    type: "function",
    function: { name: "sh", arguments: text },
  }));
  const assistant = { role: "assistant", content: null, tool_calls: histories };
  const { conversation } = parse({ messages: [user, assistant, user] });
  expect(conversation.messages[1]).toMatchObject({
    text: "",
    toolCalls: [
      { arguments: '{"cmd": "timeout 7' },
      { arguments: "[1]" },
      { arguments: {} },
      { arguments: { a: 1 } },
    ],
  });
});

test("reasoning_content, content parts and tool results come back as turns", () => {
  const { conversation } = parse({
    messages: [
      user,
      { role: "assistant", content: [{ type: "text", text: "a" }], reasoning_content: "hm" },
      { role: "tool", tool_call_id: "call_1", content: [{ type: "text", text: "r" }] },
      { role: "user", content: [{ type: "text", text: "b" }, { type: "image_url" }] },
    ],
  });
  expect(conversation.messages.slice(1)).toEqual([
    { role: "assistant", text: "a", reasoning: "hm", toolCalls: [] },
    { role: "tool", toolCallId: "call_1", text: "r", isError: false },
    { role: "user", text: "b\n[image_url block]" },
  ]);
});

test("O4. O5. any answer streams by the grammar and says what its JSON form says", () => {
  fc.assert(
    fc.property(arbitraryReply("chatcmpl-1a", "call_"), fc.boolean(), (served, include_usage) => {
      const call = open({ stream_options: { include_usage } });
      const stream = call.openStream();
      const text = stream.head(served) + stream.keepAlive() + stream.body(served);
      const { usage, ...json } = JSON.parse(JSON.stringify(call.json(served)));
      expect(readChat(text, include_usage)).toEqual(include_usage ? { ...json, usage } : json);
    }),
  );
});

test("O4. an error ends the stream: no [DONE], nothing after it", () => {
  const text = open({}).openStream().error(new RequestError(529, "the engine failed"));
  expect(text).toBe(
    'data: {"error":{"message":"the engine failed","type":"server_error","param":null,"code":"server_error"}}\n\n',
  );
});

test("max_completion_tokens wins over max_tokens; stop is one text or several", () => {
  expect(parse({ max_tokens: 1, max_completion_tokens: 2 }).sampling).toEqual({ max_tokens: 2 });
  expect(parse({ stop: "END" }).stopSequences).toEqual(["END"]);
  expect(parse({ stop: ["a", "b"] }).stopSequences).toEqual(["a", "b"]);
});

test.each([
  [undefined, "auto"],
  [null, "auto"],
  ["auto", "auto"],
  ["none", "none"],
  ["required", "required"],
  [{ type: "function", function: { name: "Bash" } }, { name: "Bash" }],
  [{ type: "allowed_tools", allowed_tools: { mode: "auto", tools: [] } }, "auto"],
  [{ type: "allowed_tools", allowed_tools: { mode: "required", tools: [] } }, "required"],
  [{ type: "function" }, "auto"],
  ["anything", "auto"],
])("tool_choice %j is %j", (choice, want) => {
  expect(parse({ tool_choice: choice }).toolChoice).toEqual(want);
});

test("the purpose of a call shows in what opencode sends", () => {
  const purposes = recordedRequests("opencode").map(({ body, headers, name }) => [
    name,
    chatDialect.parse(body, headers).request.purpose,
  ]);
  expect(Object.fromEntries(purposes)).toEqual({
    "opencode-1.18.33_aux_title": "title",
    "opencode-1.18.33_chat_turn2": "main",
  });
  expect(parse({}, { "x-session-id": "b", "x-parent-session-id": "a" }).purpose).toBe("subagent");
  expect(parse({}).purpose).toBe("main");
});
