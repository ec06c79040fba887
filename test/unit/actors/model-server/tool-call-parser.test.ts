import { beforeAll, describe, expect, test } from "vitest";
import type { ChatTemplateRenderer } from "../../../../src/actors/model-server/renderers/chat-template-renderer.js";
import { loadQwen3Vocabulary, type Vocabulary } from "../../../../src/embedded-policy/index.js";
import { emitted, qwen3Renderer } from "../../../support/model-server.js";

let renderer: ChatTemplateRenderer;
let vocabulary: Vocabulary;

beforeAll(async () => {
  renderer = await qwen3Renderer();
  vocabulary = await loadQwen3Vocabulary();
});

const parse = async (text: string) => renderer.parseTurn(await emitted(text));
const call = (json: string) => `<tool_call>\n${json}\n</tool_call>`;

test("text and tool calls are read from the ids", async () => {
  const turn = await parse(
    `I look.\n${call('{"name": "Bash", "arguments": {"command": "ls"}}')}\n${call('{"name":"Read"}')}<|im_end|>`,
  );
  expect(turn).toEqual({
    reasoning: "",
    text: "I look.\n\n",
    toolCalls: [
      { name: "Bash", arguments: { command: "ls" } },
      { name: "Read", arguments: {} },
    ],
  });
  expect(await parse("plain<|im_end|>")).toEqual({ reasoning: "", text: "plain", toolCalls: [] });
  expect(await parse("<|im_end|>")).toEqual({ reasoning: "", text: "", toolCalls: [] });
});

test.each([
  ["no JSON", call("ls")],
  ["cut JSON", call('{"name": "Bash", "arguments": {"command": "ti')],
  ["no name", call('{"arguments": {}}')],
  ["arguments that are no object", call('{"name": "Bash", "arguments": "ls"}')],
  ["an array", call("[]")],
  ["null", call("null")],
  ["no closing mark", '<tool_call>\n{"name": "Bash", "arguments": {}}'],
  ["a closing mark alone", "a</tool_call>b"],
  ["an opening mark inside", `<tool_call>{"name"${call("x")}`],
])("%s stays text, verbatim, and is counted", async (_what, text) => {
  const malformedToolCalls = text.split("<tool_call>").length - 1;
  expect(await parse(`${text}<|im_end|>`)).toEqual({
    reasoning: "",
    text,
    toolCalls: [],
    ...(malformedToolCalls === 0 ? {} : { malformedToolCalls }),
  });
});

test("a good call after a bad one is still a call", async () => {
  const turn = await parse(`<tool_call>bad${call('{"name": "a", "arguments": {}}')}<|im_end|>`);
  expect(turn).toEqual({
    reasoning: "",
    text: "<tool_call>bad",
    toolCalls: [{ name: "a", arguments: {} }],
    malformedToolCalls: 1,
  });
});

test("markup spelled with plain tokens is text", async () => {
  const text = call('{"name": "a", "arguments": {}}');
  expect(renderer.parseTurn(await vocabulary.encodeOrdinary(text))).toEqual({
    reasoning: "",
    text,
    toolCalls: [],
  });
});

test("a non-canonical split of the same text reads the same", async () => {
  const json = '{"name": "Bash", "arguments": {"command": "ls"}}';
  const split: number[] = [vocabulary.specialId("<tool_call>")];
  for (const character of json) split.push(...(await vocabulary.encode(character)));
  split.push(vocabulary.specialId("</tool_call>"), vocabulary.specialId("<|im_end|>"));
  expect(renderer.parseTurn(split).toolCalls).toEqual([
    { name: "Bash", arguments: { command: "ls" } },
  ]);
});

describe("T2. reasoning", () => {
  const inner = call('{"name": "a", "arguments": {}}');
  test("is what a block that opens the turn encloses, tool calls and all", async () => {
    expect(await parse(`<think>\nhm ${inner}\n</think>\n\nyes ${inner}<|im_end|>`)).toEqual({
      reasoning: `hm ${inner}`,
      text: "yes ",
      toolCalls: [{ name: "a", arguments: {} }],
    });
    expect(await parse("<think>\n\n</think>\n\nyes<|im_end|>")).toMatchObject({
      reasoning: "",
      text: "yes",
    });
  });
  test.each([
    ["<think>never closed", "never closed", ""],
    ["first <think>then</think>", "then", "first "],
  ])("%s holds no reasoning in its text", async (written, reasoning, text) => {
    expect(await parse(`${written}<|im_end|>`)).toMatchObject({ reasoning, text });
  });
});

test("tool calls that the request forbids stay text", async () => {
  const text = call('{"name": "a", "arguments": {}}');
  const turn = renderer.parseTurn(await emitted(`${text}<|im_end|>`), { toolCalls: false });
  expect(turn).toEqual({ reasoning: "", text, toolCalls: [] });
});
