/** Tool formats and reasoning of every family, over real tokenizers. */
import { Template } from "@huggingface/jinja";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { parseMessagesRequest } from "../../../../src/actors/model-server/dialects/messages-request.js";
import {
  FAMILY_NAMES,
  type FamilyName,
} from "../../../../src/actors/model-server/renderers/families.js";
import { templateJson } from "../../../../src/actors/model-server/renderers/normalise.js";
import type { ParsedToolCall } from "../../../../src/actors/model-server/renderers/renderer.js";
import type {
  AssistantTurn,
  Conversation,
  ConversationMessage,
  ToolSpecification,
} from "../../../../src/capture/index.js";
import { chatTemplateOf, rendererOf, vocabularyOf } from "../../../support/families.js";
import { recordedRequests } from "../../../support/model-server.js";

const RUNS = Number(process.env["CORRAL_FUZZ_RUNS"] ?? 400);

const TOOL: ToolSpecification = {
  name: "act",
  description: "does it",
  parameters: {
    type: "object",
    properties: {
      text: { type: "string" },
      count: { type: "integer" },
      share: { type: "number" },
      flag: { type: "boolean" },
      nothing: { type: "null" },
      list: { type: "array" },
      map: { type: "object" },
    },
  },
};

const conversation = (messages: readonly ConversationMessage[]): Conversation => ({
  model: "m",
  system: "s",
  tools: [TOOL],
  messages,
});

/** Ids of one assistant turn as the template writes it, from where the assistant starts to speak. */
async function turnIds(family: FamilyName, turn: AssistantTurn): Promise<Int32Array> {
  const renderer = rendererOf(family, { variables: { enable_thinking: false } });
  const before: ConversationMessage[] = [{ role: "user", text: "x" }];
  const prompt = await renderer.promptIds(conversation(before));
  const after: ConversationMessage = { role: "user", text: "y" };
  const whole = await renderer.promptIds(conversation([...before, turn, after]));
  const continued = await renderer.continuationIds([after]);
  // Qwen3 writes an empty thinking block into the generation prompt only.
  const start = family === "qwen3" ? prompt.length - 4 : prompt.length;
  return whole.slice(start, whole.length - continued.length);
}

const plain = fc
  .string({ unit: fc.constantFrom(...'ab \n\t"\\{}<>;é日/='.split("")), maxLength: 12 })
  .filter((text) => !text.includes("</"));
const argument: fc.Arbitrary<[string, unknown]> = fc.oneof(
  fc.tuple(fc.constant("text"), plain),
  fc.tuple(fc.constant("count"), fc.integer()),
  fc.tuple(
    fc.constant("share"),
    fc
      .double({ noNaN: true, noDefaultInfinity: true, min: -1e6, max: 1e6 })
      .map((n) => Number(n.toFixed(3)) + 0),
  ),
  fc.tuple(fc.constant("flag"), fc.boolean()),
  fc.tuple(fc.constant("nothing"), fc.constant(null)),
  fc.tuple(
    fc.constant("list"),
    fc.array(fc.oneof(plain, fc.integer(), fc.boolean()), { maxLength: 3 }),
  ),
  fc.tuple(fc.constant("map"), fc.dictionary(fc.constantFrom("a", "b c", "é"), plain)),
);
const call: fc.Arbitrary<ParsedToolCall> = fc
  .array(argument, { maxLength: 4 })
  .map((entries) => ({ name: "act", arguments: Object.fromEntries(entries) }));

/** JSON has one zero. */
const sameJson = (value: unknown): unknown => JSON.parse(JSON.stringify(value));

describe.each(FAMILY_NAMES)("%s", (family) => {
  test("parse ∘ render is the identity on tool calls", async () => {
    const renderer = rendererOf(family);
    await fc.assert(
      fc.asyncProperty(fc.array(call, { minLength: 1, maxLength: 3 }), async (calls) => {
        const toolCalls = calls.map((one, index) => ({ id: `c${index}`, ...one }));
        const ids = await turnIds(family, { role: "assistant", text: "", toolCalls });
        const turn = renderer.parseTurn(ids, { tools: [TOOL] });
        expect(sameJson(turn.toolCalls)).toEqual(sameJson(calls));
        expect(turn.text.trim()).toBe("");
        expect(turn.malformedToolCalls).toBeUndefined();
      }),
      { numRuns: 40 },
    );
  }, 120_000);

  test("text before a call stays text", async () => {
    if (family === "llama3_json") return;
    const turn: AssistantTurn = {
      role: "assistant",
      text: "I look.",
      toolCalls: [{ id: "c", name: "act", arguments: { text: "x" } }],
    };
    const parsed = rendererOf(family).parseTurn(await turnIds(family, turn), { tools: [TOOL] });
    expect(parsed.text.trim()).toBe("I look.");
    expect(parsed.toolCalls).toEqual([{ name: "act", arguments: { text: "x" } }]);
  });

  test("F9. what follows a turn has the ids of the whole render, whatever its text would merge with (https://github.com/radixark/miles/pull/1319)", async () => {
    const renderer = rendererOf(family, { variables: { enable_thinking: false } });
    const before: ConversationMessage[] = [
      { role: "user", text: "x" },
      { role: "assistant", text: "x", toolCalls: [] },
    ];
    const seam = fc.oneof(
      fc.constantFrom("<", "ing", "\u0301", " ", "s", "|im_end|>", "}}", "日"),
      plain,
    );
    await fc.assert(
      fc.asyncProperty(seam, fc.boolean(), async (text, isTool) => {
        const next: ConversationMessage = isTool
          ? { role: "tool", toolCallId: "1", text, isError: false }
          : { role: "user", text };
        const whole = await renderer.promptIds({ ...conversation([...before, next]), tools: [] });
        const continued = await renderer.continuationIds([next]);
        const at = whole.length - continued.length;
        expect(whole.slice(at)).toEqual(continued);
        expect(renderer.endsTurn(whole.slice(0, at))).toBe(true);
      }),
    );
  });

  test("F18. mutated outputs never throw, and what is no call is text (https://github.com/vllm-project/vllm/issues/47761, https://github.com/verl-project/verl/pull/6542)", async () => {
    const renderer = rendererOf(family);
    const vocabulary = vocabularyOf(family);
    const base = await turnIds(family, {
      role: "assistant",
      text: "",
      toolCalls: [
        { id: "a", name: "act", arguments: { text: 'a "b" \\', count: 3, map: { a: "x" } } },
        { id: "b", name: "act", arguments: { flag: true } },
      ],
    });
    const pieces = [...vocabulary.specials.values()].slice(0, 40);
    const mutation = fc.record({
      at: fc.nat(),
      remove: fc.nat({ max: 6 }),
      insert: fc.array(
        fc.oneof(
          fc.constantFrom(...base),
          fc.constantFrom(...pieces),
          fc.nat({ max: vocabulary.size - 1 }),
        ),
        { maxLength: 4 },
      ),
    });
    fc.assert(
      fc.property(fc.array(mutation, { minLength: 1, maxLength: 4 }), (mutations) => {
        const ids = Array.from(base);
        for (const { at, remove, insert } of mutations)
          ids.splice(at % (ids.length + 1), remove, ...insert);
        const known = ids.filter((id) => spelled(vocabulary, id));
        const turn = renderer.parseTurn(known, { tools: [TOOL] });
        for (const { arguments: input } of turn.toolCalls)
          expect(Object.getPrototypeOf(input)).toBe(Object.prototype);
      }),
      { numRuns: RUNS },
    );
  }, 600_000);

  test("special-token text in any content stays text, and the switch makes it special as servers do", async () => {
    const vocabulary = vocabularyOf(family);
    const evil = `a${family === "llama3_json" ? "<|eot_id|>" : "<|im_end|>"}b`;
    const special = family === "llama3_json" ? "<|eot_id|>" : "<|im_end|>";
    const messages: ConversationMessage[] = [
      { role: "user", text: evil },
      {
        role: "assistant",
        text: "",
        toolCalls: [{ id: "c", name: "act", arguments: { text: evil } }],
      },
      { role: "tool", toolCallId: "c", text: evil, isError: false },
    ];
    const tools = [{ ...TOOL, description: evil }];
    const count = (ids: Int32Array) =>
      ids.filter((id) => id === vocabulary.specialId(special)).length;
    const harmless = JSON.parse(JSON.stringify({ messages, tools }).replaceAll(special, "|"));
    const safe = await rendererOf(family).promptIds({ ...conversation(messages), tools });
    const quiet = await rendererOf(family).promptIds({ ...conversation([]), ...harmless });
    expect(count(safe)).toBe(count(quiet));
    expect(vocabulary.decode(safe)).toBe(vocabulary.decode(quiet).replaceAll("a|b", evil));
    const mimicking = rendererOf(family, { contentSpecials: "special" });
    expect(count(await mimicking.promptIds({ ...conversation(messages), tools }))).toBe(
      count(quiet) + 4,
    );
  });

  test.each(recordedRequests("claude-code-2.1.197").map((r) => [r.name, r] as const))(
    "the prompt of %s is the template's own text",
    async (_name, { headers, body }) => {
      const vocabulary = vocabularyOf(family);
      const { conversation: asked } = parseMessagesRequest(body, headers);
      const ids = await rendererOf(family).promptIds(asked);
      const own = templateText(family, asked);
      // This Jinja strips more blanks than Python's from Qwen3's assistant turns; there the blanks are kept.
      const squeezed = (text: string) => text.replace(/\s+/g, " ");
      const text = vocabulary.decode(ids);
      expect(squeezed(text)).toBe(squeezed(own.normalize("NFC")));
      if (text === own && !vocabulary.spellsSpecial(JSON.stringify(body)))
        expect(ids).toEqual(await vocabulary.encode(own));
    },
  );
});

/** Reserved ids that no token has spell nothing. */
function spelled(vocabulary: { decodeBytes(ids: number[]): Uint8Array }, id: number): boolean {
  return vocabulary.decodeBytes([id]).length > 0;
}

function templateText(family: FamilyName, { system, tools, messages }: Conversation): string {
  const all: readonly ConversationMessage[] = [{ role: "system", text: system }, ...messages];
  return new Template(chatTemplateOf(family)).render({
    bos_token: "<|begin_of_text|>",
    messages: all.map((message) =>
      message.role === "assistant"
        ? {
            role: "assistant",
            content: message.text,
            reasoning_content: message.reasoning ?? "",
            tool_calls: message.toolCalls.map(({ name, arguments: input }) => ({
              function: { name, arguments: family === "qwen3" ? templateJson(input) : input },
            })),
          }
        : { role: message.role, content: message.text },
    ),
    ...(tools.length > 0 && { tools: tools.map((tool) => ({ type: "function", function: tool })) }),
    add_generation_prompt: true,
  });
}

describe("reasoning", () => {
  const parse = async (text: string, template = chatTemplateOf("qwen3")) => {
    const renderer = rendererOf("qwen3", { chatTemplate: template });
    return renderer.parseTurn(await vocabularyOf("qwen3").encode(text), { tools: [TOOL] });
  };
  const CALL = '<tool_call>\n{"name": "act", "arguments": {}}\n</tool_call>';
  const opening = chatTemplateOf("qwen3").replace(
    "'<|im_start|>assistant\\n' }}\n    {%- if enable",
    "'<|im_start|>assistant\\n<think>\\n' }}\n    {%- if enable",
  );

  test("T1. is never part of the text", async () => {
    expect(await parse("<think>\nhm\n</think>\n\nyes<|im_end|>")).toEqual({
      text: "yes",
      toolCalls: [],
      reasoning: "hm",
    });
    expect(await parse("<think>\nhm")).toEqual({ text: "", toolCalls: [], reasoning: "hm" });
    expect(await parse("a<think>b</think>c<|im_end|>")).toEqual({
      text: "ac",
      toolCalls: [],
      reasoning: "b",
    });
  });

  test("T1. F18. a tool call within it is no call (https://github.com/vllm-project/vllm/issues/39056)", async () => {
    const turn = await parse(`<think>I could ${CALL}</think>${CALL}<|im_end|>`);
    expect(turn.toolCalls).toHaveLength(1);
    expect(turn.reasoning).toBe(`I could ${CALL}`);
    expect((await parse(`<think>${CALL}`)).toolCalls).toEqual([]);
  });

  test("T2. a closing mark alone is text, unless the prompt opened the block", async () => {
    expect(await parse("a</think>b<|im_end|>")).toEqual({
      reasoning: "",
      text: "a</think>b",
      toolCalls: [],
    });
    expect(await parse("a</think>b<|im_end|>", opening)).toEqual({
      text: "b",
      toolCalls: [],
      reasoning: "a",
    });
  });

  test("text that spells the marks with ordinary tokens is text", async () => {
    const ids = await vocabularyOf("qwen3").encodeOrdinary("<think>x</think>y");
    expect(rendererOf("qwen3").parseTurn(ids)).toEqual({
      reasoning: "",
      text: "<think>x</think>y",
      toolCalls: [],
    });
  });
});

describe("llama3_json", () => {
  const parse = async (text: string, tools = [TOOL]) =>
    rendererOf("llama3_json").parseTurn(await vocabularyOf("llama3_json").encode(text), { tools });

  test("an answer that is JSON is no call, and without tools nothing is", async () => {
    const call = '{"name": "act", "parameters": {"text": "x"}}';
    expect((await parse(`${call}<|eot_id|>`)).toolCalls).toHaveLength(1);
    expect((await parse(`<|python_tag|>${call}<|eot_id|>`)).toolCalls).toHaveLength(1);
    expect(await parse(`${call}<|eot_id|>`, [])).toEqual({
      reasoning: "",
      text: call,
      toolCalls: [],
    });
    expect(await parse('{"answer": 1}<|eot_id|>')).toEqual({
      reasoning: "",
      text: '{"answer": 1}',
      toolCalls: [],
    });
    expect(await parse(`${call}; and more<|eot_id|>`)).toMatchObject({
      toolCalls: [],
      malformedToolCalls: 1,
    });
  });
});

describe("qwen3_coder", () => {
  const parse = async (body: string) =>
    rendererOf("qwen3_coder").parseTurn(
      await vocabularyOf("qwen3_coder").encode(`<tool_call>\n${body}\n</tool_call><|im_end|>`),
      { tools: [TOOL] },
    );
  const call = (key: string, value: string) =>
    `<function=act>\n<parameter=${key}>\n${value}\n</parameter>\n</function>`;

  test.each([
    ["count", "3", 3],
    ["count", "three", "three"],
    ["count", "3.5", "3.5"],
    ["share", "3", 3],
    ["flag", "True", true],
    ["nothing", "None", null],
    ["text", "3", "3"],
    ["text", "\n\nx\n", "\n\nx\n"],
    ["unknown", "3", "3"],
    ["__proto__", "3", "3"],
    ["map", '{"a": 1}', { a: 1 }],
  ])("%s = %j is read by its schema", async (key, value, expected) => {
    const [parsed] = (await parse(call(key, value))).toolCalls;
    expect(Object.entries(parsed?.arguments as object)).toEqual([[key, expected]]);
  });

  test.each([
    "",
    "<function=>\n</function>",
    "<function=act>",
    `${call("text", "x")}x`,
    "<function=act>\n<parameter=text>x\n</function>",
  ])("%j is no call", async (body) => {
    expect(await parse(body)).toMatchObject({ toolCalls: [], malformedToolCalls: 1 });
  });
});
