import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { responsesDialect } from "../../../../src/actors/model-server/dialects/responses.js";
import { RequestError } from "../../../../src/actors/model-server/request-error.js";
import { arbitraryReply } from "../../../support/arbitrary-reply.js";
import { recordedRequests } from "../../../support/model-server.js";
import { parseData, readResponse } from "../../../support/openai-stream.js";

const user = { role: "user", content: "x" };
const open = (body: object) => responsesDialect.parse({ model: "m", input: "x", ...body }, {});
const parse = (body: object) => open(body).request;
const text = (type: string, value: string) => [{ type, text: value }];

test("R1. instructions, or else a leading developer message, are the system prompt", () => {
  const developer = { type: "message", role: "developer", content: text("input_text", "d") };
  expect(parse({ input: [developer, user] }).conversation).toMatchObject({
    system: "d",
    messages: [{ role: "user", text: "x" }],
  });
  expect(parse({ instructions: "i", input: [developer, user] }).conversation).toMatchObject({
    system: "i",
    messages: [
      { role: "system", text: "d" },
      { role: "user", text: "x" },
    ],
  });
  expect(parse({ input: "x" }).conversation).toMatchObject({
    system: "",
    messages: [{ role: "user", text: "x" }],
  });
});

describe("R2. what is unknown leaves no trace, what is wrong is named", () => {
  test("tools that are no functions are not offered; an unknown item is named in its place", () => {
    const tools = [
      { type: "web_search" },
      { type: "namespace", name: "multi_agent", tools: [{ type: "function", name: "b" }] },
      { type: "function", name: "a", parameters: null },
    ];
    const input = [user, { type: "computer_call", id: "x" }];
    const { conversation } = parse({ tools, input, client_metadata: {}, include: ["x"] });
    expect(conversation.tools.map((tool) => tool.name)).toEqual(["a"]);
    expect(conversation.messages[1]).toEqual({ role: "user", text: "[computer_call item]" });
  });

  test.each([
    [{ input: [] }, /^input: /],
    [{ input: [user, {}] }, /^input\.1\.type: /],
    [{ input: [{ role: "user", content: 5 }] }, /^input\.0\.content: /],
    [{ input: [user, { type: "function_call", call_id: "a" }] }, /^input\.1\.name: /],
    [{ input: [user, { role: "assistant", content: "x" }] }, /^input\.1: the last/],
    [{ tools: [{ type: "function" }] }, /^tools\.0\.name: /],
    [{ background: true }, /^background: /],
  ])("%j", (body, message) => {
    expect(() => open(body)).toThrow(RequestError);
    expect(() => open(body)).toThrow(message);
  });
});

test("R3. arguments cut off mid-way are kept as text, not refused (https://github.com/vllm-project/vllm/issues/55495)", () => {
  const call = { type: "function_call", call_id: "c", name: "sh", arguments: '{"cmd": "timeout 7' };
  const { conversation } = parse({ input: [user, call, user] });
  expect(conversation.messages[1]).toMatchObject({
    toolCalls: [{ id: "c", arguments: '{"cmd": "timeout 7' }],
  });
});

test.each([
  ["auto", "auto"],
  ["none", "none"],
  ["required", "required"],
  [{ type: "function", name: "Bash" }, { name: "Bash" }],
  [{ type: "allowed_tools", mode: "required", tools: [] }, "required"],
  [{ type: "allowed_tools", mode: "auto", tools: [] }, "auto"],
  [{ type: "web_search_preview" }, "auto"],
])("tool_choice %j is %j", (choice, want) => {
  expect(parse({ tool_choice: choice }).toolChoice).toEqual(want);
});

test("what an answer repeats must not nest deeper than it can be written", () => {
  const metadata = { a: JSON.parse(`${"[".repeat(300)}${"]".repeat(300)}`) };
  expect(() => open({ metadata })).toThrow(/^metadata: must not nest deeper than 200 levels/);
});

test("a result that no call asked for is the user's: Codex tells of its goals so", () => {
  const output = { type: "function_call_output", name: "goal", namespace: "agent", output: "g" };
  expect(parse({ input: [user, output] }).conversation.messages[1]).toEqual({
    role: "user",
    text: "g",
  });
});

test.each([{ previous_response_id: "resp_1" }, { conversation: "conv_1" }])(
  "R4. %j refers to what is not kept and is refused",
  (body) => {
    expect(() => open(body)).toThrow(/must be null: no .* is kept/);
  },
);

test("reasoning, text and calls of one answer are one turn", () => {
  const { conversation } = parse({
    input: [
      user,
      { type: "reasoning", id: "rs_1", summary: text("summary_text", "hm"), content: null },
      { type: "message", role: "assistant", content: text("output_text", "a") },
      { type: "function_call", call_id: "c1", name: "sh", arguments: '{"a":1}' },
      { type: "function_call", call_id: "c2", name: "sh", arguments: "{}" },
      { type: "function_call_output", call_id: "c2", output: text("input_text", "r") },
      { type: "function_call_output", call_id: "c1", output: "q" },
    ],
  });
  expect(conversation.messages.slice(1)).toEqual([
    {
      role: "assistant",
      reasoning: "hm",
      text: "a",
      toolCalls: [
        { id: "c1", name: "sh", arguments: { a: 1 } },
        { id: "c2", name: "sh", arguments: {} },
      ],
    },
    { role: "tool", toolCallId: "c2", text: "r", isError: false },
    { role: "tool", toolCallId: "c1", text: "q", isError: false },
  ]);
});

test("R5. R6. any answer streams every event, ids equal, and ends as its JSON form says (https://github.com/vllm-project/vllm/pull/56285, https://github.com/vllm-project/vllm/issues/42407, https://github.com/NVIDIA-NeMo/Switchyard/pull/469, https://github.com/NVIDIA-NeMo/Switchyard/pull/300)", () => {
  fc.assert(
    fc.property(arbitraryReply("msg_1a", "call_"), (served) => {
      const call = open({ instructions: "i", tools: [{ type: "web_search" }] });
      const stream = call.openStream();
      const final = readResponse(stream.head(served) + stream.keepAlive() + stream.body(served));
      expect(final).toEqual(JSON.parse(JSON.stringify(call.json(served))));
    }),
  );
});

test("R6. a failure ends the stream with response.failed of the same response", () => {
  const stream = open({}).openStream();
  const head = { messageId: "msg_1a", model: "m", createdAtS: 1, inputTokens: 2 };
  const events = parseData(stream.head(head) + stream.error(new RequestError(529, "no engine")));
  const [created, , failed] = events.map((event) => JSON.parse(event));
  expect(failed).toMatchObject({
    type: "response.failed",
    sequence_number: 2,
    response: { status: "failed", error: { code: "server_error", message: "no engine" } },
  });
  expect(failed.response.id).toBe(created.response.id);
});

test("R7. the sign of life is response.in_progress, and a comment before there is a response", () => {
  const stream = open({}).openStream();
  expect(stream.keepAlive()).toMatch(/^:/);
  stream.head({ messageId: "msg_1a", model: "m", createdAtS: 1, inputTokens: 2 });
  expect(stream.keepAlive()).toMatch(/^event: response\.in_progress\n/);
});

test("Codex: its developer message is the system prompt, its other tool types are not offered", () => {
  const [reasoning, first] = recordedRequests("codex").map(
    ({ body, headers }) => responsesDialect.parse(body, headers).request.conversation,
  );
  expect(first?.tools.map((tool) => tool.name)).toContain("exec_command");
  expect(first?.tools.map((tool) => tool.name)).not.toContain("multi_agent_v1");
  expect(first?.messages.map((message) => message.role)).toEqual(["system", "user", "user"]);
  expect(reasoning?.messages.slice(-2)).toMatchObject([
    { role: "assistant", reasoning: "let me think about this", text: "a" },
    { role: "tool" },
  ]);
});
