import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { messagesDialect } from "../../../../src/actors/model-server/dialects/messages.js";
import { RequestError } from "../../../../src/actors/model-server/request-error.js";
import { arbitraryReply } from "../../../support/arbitrary-reply.js";
import { parseEvents, readMessage } from "../../../support/messages-stream.js";
import { recordedRequests, userRequest } from "../../../support/model-server.js";

const parse = (body: object, headers: Record<string, string> = {}) =>
  messagesDialect.parse(
    { model: "m", messages: [{ role: "user", content: "x" }], ...body },
    headers,
  ).request;

describe("N1. one conversation, whatever its form", () => {
  test("string or blocks, with or without cache marks and unknown keys", () => {
    const plain = parse({ system: "s", messages: [{ role: "user", content: "a" }] });
    const blocks = parse({
      system: [{ type: "text", text: "s", cache_control: { type: "ephemeral" } }],
      messages: [
        { role: "user", content: [{ type: "text", text: "a", cache_control: {} }], unknown: 1 },
      ],
      context_management: { edits: [] },
      metadata: {},
    });
    expect(blocks).toEqual(plain);
  });

  test("system turns and several user turns in a row stay as they came; blocks keep their order", () => {
    const { conversation } = parse({
      messages: [
        { role: "user", content: "a" },
        { role: "system", content: [{ type: "text", text: "b" }] },
        { role: "assistant", content: [{ type: "thinking", thinking: "hm", signature: "" }] },
        {
          role: "assistant",
          content: [
            { type: "text", text: "c" },
            { type: "tool_use", id: "t1", name: "Bash", input: { a: 1 } },
          ],
        },
        {
          role: "user",
          content: [
            {
              type: "tool_result",
              tool_use_id: "t1",
              content: [{ type: "text", text: "d" }, { type: "image" }],
            },
            { type: "text", text: "e" },
            { type: "text", text: "f" },
          ],
        },
        { role: "user", content: "g" },
      ],
    });
    expect(conversation.messages).toEqual([
      { role: "user", text: "a" },
      { role: "system", text: "b" },
      {
        role: "assistant",
        text: "c",
        reasoning: "hm",
        toolCalls: [{ id: "t1", name: "Bash", arguments: { a: 1 } }],
      },
      { role: "tool", toolCallId: "t1", text: "d\n[image block]", isError: false },
      { role: "user", text: "e\nf" },
      { role: "user", text: "g" },
    ]);
  });

  test("tools without input_schema are ignored, an empty list is none", () => {
    const tools = [
      { type: "web_search_20250305", name: "web_search" },
      { name: "a", input_schema: { type: "object" } },
    ];
    expect(parse({ tools }).conversation.tools).toEqual([
      { name: "a", description: "", parameters: { type: "object" } },
    ]);
    expect(parse({ tools: [] }).conversation.tools).toEqual([]);
  });
});

describe("N2. the billing line", () => {
  const line = "x-anthropic-billing-header: cc_version=2.1.197.403; cch=36ee5;";
  test("is dropped from the start of the system prompt, string or blocks", () => {
    const system = [
      { type: "text", text: line },
      { type: "text", text: "s" },
    ];
    expect(parse({ system }).conversation.system).toBe("s");
    expect(parse({ system: `${line}\ns` }).conversation.system).toBe("s");
    expect(parse({ system: line }).conversation.system).toBe("");
  });
  test("is kept anywhere else", () => {
    expect(parse({ system: `s\n${line}` }).conversation.system).toBe(`s\n${line}`);
    const { conversation } = parse({ messages: [{ role: "user", content: line }] });
    expect(conversation.messages).toEqual([{ role: "user", text: line }]);
  });
  test("is gone from every recorded request", () => {
    for (const { body, headers } of recordedRequests("claude-code"))
      expect(messagesDialect.parse(body, headers).request.conversation.system).not.toContain(
        "billing",
      );
  });
});

test("N3. a wrong type is a 400 that names the field", () => {
  const wrong = () =>
    parse({
      messages: [
        { role: "user", content: "x" },
        { role: "user", content: [{}] },
      ],
    });
  expect(wrong).toThrow(RequestError);
  expect(wrong).toThrow(/^messages\.1\.content: /);
});

test("the purpose of a call shows in what Claude Code sends", () => {
  const purposes = recordedRequests("claude-code-2.1.197").map(({ name, body, headers }) => [
    name.replace("claude-code-2.1.197_", ""),
    messagesDialect.parse(body, headers).request.purpose,
  ]);
  expect(Object.fromEntries(purposes)).toMatchObject({
    aux_title: "title",
    main_turn1: "main",
    subagent_turn1: "subagent",
    subagent_turn2: "subagent",
    main_after_subagent: "main",
  });
  const last = {
    role: "user",
    content: [{ type: "text", text: "CRITICAL: Respond with TEXT ONLY." }],
  };
  expect(parse({ messages: [last] }).purpose).toBe("compaction");
  expect(parse({ system: "x-anthropic-billing-header: cc_is_subagent=true;" }).purpose).toBe(
    "subagent",
  );
});

test("W1. W2. W3. any answer streams by the grammar and says what its JSON form says", () => {
  fc.assert(
    fc.property(arbitraryReply("msg_1a", "toolu_"), (served) => {
      const call = messagesDialect.parse(userRequest("x"), {});
      const stream = call.openStream();
      const streamed = readMessage(parseEvents(stream.head(served) + stream.body(served)));
      const json = JSON.parse(JSON.stringify(call.json(served))) as object;
      expect(json).toEqual({ ...streamed, type: "message", role: "assistant" });
    }),
  );
});

test("stop sequences are read", () => {
  expect(parse({ stop_sequences: ["\n\n", "END"] }).stopSequences).toEqual(["\n\n", "END"]);
  expect(parse({}).stopSequences).toEqual([]);
});

test.each([
  [undefined, "auto"],
  [{ type: "auto", disable_parallel_tool_use: true }, "auto"],
  [{ type: "none" }, "none"],
  [{ type: "any" }, "required"],
  [{ type: "tool", name: "Bash" }, { name: "Bash" }],
])("tool_choice %j is %j", (choice, want) => {
  expect(parse({ tool_choice: choice }).toolChoice).toEqual(want);
});
