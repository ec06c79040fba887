import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { ChoiceNode } from "../../../src/embedded-policy/choice-nodes.js";
import { rootNode } from "../../../src/embedded-policy/grammar.js";
import {
  EmbeddedPolicy,
  loadQwen3Vocabulary,
  untrainedSnapshot,
} from "../../../src/embedded-policy/index.js";
import type { PromptState, TaskWord } from "../../../src/embedded-policy/prompt-state.js";
import type { Tool } from "../../../src/embedded-policy/tools.js";
import { walk } from "../../../src/embedded-policy/walk.js";
import { claudeTools, fn, promptIds, systemMessage, toolCall } from "../../support/qwen3-prompt.js";
import { variedSnapshot } from "../../support/varied-snapshot.js";

const vocabulary = await loadQwen3Vocabulary();
const policy = new EmbeddedPolicy(vocabulary);
const snapshot = untrainedSnapshot();
const call = (ids: Int32Array) => {
  const text = vocabulary.decode(ids);
  const json = /^<tool_call>\n(.*)\n<\/tool_call><\|im_end\|>$/s.exec(text)?.[1];
  return json === undefined
    ? undefined
    : (JSON.parse(json) as { name: string; arguments: Record<string, unknown> });
};
const sample = (prompt: Int32Array, seed: number) =>
  policy.generate(snapshot, prompt, { temperature: 1, topP: 1, topK: 0, seed, maxTokens: 5000 });

function stateWith(
  tools: readonly Tool[],
  words: readonly string[],
  resultWords: readonly string[] = [],
): PromptState {
  const word = (text: string): TaskWord => {
    return { text, previous: "^", beforePrevious: "^", next: "$", dotted: false, used: false };
  };
  return {
    tools,
    words: words.map(word),
    workingDirectory: "/w",
    bag: [],
    firstWord: "",
    resultLines: [],
    resultWords,
    turn: 0,
    lastTool: "-",
  };
}

/** As UTF-8 carries it: a lone surrogate becomes U+FFFD. */
const wellFormed = (text: string) => Buffer.from(text).toString();

/** Every complete text of a node. */
function texts(node: ChoiceNode): string[] {
  return node.leaves.flatMap(({ text, next }) =>
    next ? texts(next()).map((t) => text + t) : [text],
  );
}

describe("grammar", () => {
  it("G1: any tool list compiles to calls that its schemas accept", async () => {
    const leaf = fc.constantFrom<object>(
      { type: "string" },
      { type: "integer" },
      { type: "integer", minimum: 5, maximum: 7 },
      { type: "number", exclusiveMinimum: 100 },
      { type: "boolean" },
      { enum: ["a", 'q"', "é", 3, null] },
      { const: { x: [1] } },
      { type: ["null", "integer"] },
      { anyOf: [{ type: "null" }, { type: "array", minItems: 2, items: { type: "boolean" } }] },
      { type: "object", required: ["z"], properties: { z: { type: "array" } } },
      { $ref: "#/nowhere" },
      {},
    );
    const name = fc.oneof(
      fc.constantFrom("command", "file_path", "text", "é\ud800", '"', "__proto__"),
      fc.string({ minLength: 1 }),
    );
    const tool = fc.tuple(name, fc.dictionary(name, leaf, { maxKeys: 4 }));
    await fc.assert(
      fc.asyncProperty(
        fc.array(tool, { minLength: 1, maxLength: 4 }),
        fc.nat(1e6),
        async (list, seed) => {
          const tools = list.map(([tool, properties]) =>
            fn(tool, properties, Object.keys(properties)),
          );
          const prompt = await promptIds(
            [systemMessage, { role: "user", content: "do a.txt" }],
            tools,
          );
          const { tokenIds, finishReason } = sample(prompt, seed);
          expect(finishReason).toBe("stop");
          const made = call(tokenIds);
          if (!made) return;
          const named = list.filter(([tool]) => wellFormed(tool) === wellFormed(made.name));
          const keys = Object.keys(made.arguments).map(wellFormed);
          expect(
            named.some(([, properties]) =>
              Object.keys(properties).every((key) => keys.includes(wellFormed(key))),
            ),
          ).toBe(true);
        },
      ),
      { numRuns: 150 },
    );
  });

  it.each<[object, (value: unknown) => boolean]>([
    [{ type: "boolean" }, (v) => typeof v === "boolean"],
    [{ type: "integer", minimum: 5, maximum: 7 }, (v) => v === 5],
    [{ type: "number", maximum: 0.5 }, (v) => v === 0.5],
    [{ enum: ["a", 3, null, "é"] }, (v) => ["a", 3, null, "é"].includes(v as string)],
    [{ type: "array", items: { type: "string" } }, (v) => Array.isArray(v) && v.length === 0],
    [
      { type: "array", minItems: 2, items: { type: "integer" } },
      (v) => JSON.stringify(v) === "[1,1]",
    ],
    [{ type: "object" }, (v) => JSON.stringify(v) === "{}"],
    [
      { type: "object", required: ["a"], properties: { a: { type: "string" } } },
      (v) => JSON.stringify(v) === '{"a":""}',
    ],
    [{ anyOf: [{ type: "null" }, { type: "boolean" }] }, (v) => typeof v === "boolean"],
    [{ type: "null" }, (v) => v === null],
    [{ type: "string" }, (v) => typeof v === "string"],
  ])("G1: a required argument with schema %j gets a fitting value", async (schema, fits) => {
    const prompt = await promptIds(
      [systemMessage, { role: "user", content: "go" }],
      [fn("t", { a: schema, optional: {} }, ["a"])],
    );
    let calls = 0;
    for (let seed = 0; seed < 40; seed++) {
      const made = call(sample(prompt, seed).tokenIds);
      if (!made) continue;
      calls++;
      expect(Object.keys(made.arguments)).toEqual(["a"]);
      expect(fits(made.arguments["a"])).toBe(true);
    }
    expect(calls).toBeGreaterThan(5);
  });

  it("G2: without chance splits the tokens of a call are those of its text", async () => {
    const prompt = await promptIds([
      systemMessage,
      { role: "user", content: "Copy a.txt to the file b-2.md." },
    ]);
    for (let seed = 0; seed < 200; seed++) {
      const { tokenIds } = policy.generate(variedSnapshot(), prompt, {
        temperature: 0.5,
        topP: 0.9,
        topK: 0,
        seed,
        maxTokens: 500,
      });
      const score = policy.replay.bind(policy);
      let split = false;
      score(snapshot.weights, prompt, tokenIds, () => undefined);
      const text = vocabulary.decode(tokenIds);
      const again = await vocabulary.encode(text);
      split = again.join() !== tokenIds.join();
      if (!split) return;
    }
    throw new Error("every completion drifted");
  });

  const bash: Tool = { name: "Bash", required: [{ name: "command", schema: { type: "string" } }] };
  const read: Tool = {
    name: "Read",
    required: [{ name: "file_path", schema: { type: "string" } }],
  };
  const hostile = [
    "$(id)",
    "..",
    "../x",
    "/etc/passwd",
    "-rf",
    "a;b",
    "`x`",
    "a b",
    ".",
    "a..b",
    "|",
    "&",
    "~",
    "*",
    "ok.txt",
  ];

  it("G3: shell commands hold safe names only", () => {
    for (const words of [hostile, []]) {
      const all = texts(rootNode(stateWith([bash], words, hostile))).flatMap(
        (t) => /"command": "(.*)"}}/.exec(t)?.[1] ?? [],
      );
      expect(all.length).toBeGreaterThan(2);
      for (const command of all)
        expect(command).toMatch(/^(ls|cat (ok|file)\.txt|echo (ok|file)\.txt > (ok|file)\.txt)$/);
    }
  });

  it("G3: paths stay in the working directory", () => {
    const all = texts(rootNode(stateWith([read], hostile))).flatMap(
      (t) => /"file_path": "(.*)"}}/.exec(t)?.[1] ?? [],
    );
    expect(all).toEqual(["ok.txt", "/w/ok.txt"]);
    expect(texts(rootNode(stateWith([read], [])))[0]).toContain('"file.txt"');
  });

  it("G4: every leaf is printable ASCII, newlines and marks", () => {
    const odd: Tool = {
      name: "naïve\n\ud800",
      required: [{ name: "größe", schema: { enum: ["ü", "\u2028"] } }],
    };
    for (const text of texts(rootNode(stateWith([odd, bash], ["word"]))))
      expect(text).toMatch(/^[\n\x20-\x7e\uE000-\uE002]+$/);
  });

  it("W2: at every position of many walks the probabilities sum to 1", async () => {
    const prompt = await promptIds(
      [
        systemMessage,
        { role: "user", content: "Copy the content of the file a.txt to b.txt." },
        toolCall("Read", { file_path: "a.txt" }),
        { role: "tool", content: "1\tapple" },
      ],
      claudeTools,
    );
    let positions = 0;
    for (let seed = 0; seed < 30; seed++) {
      const { tokenIds } = sample(prompt, seed);
      policy.replay(variedSnapshot().weights, prompt, tokenIds, (_, __, { probabilities }) => {
        positions++;
        expect(Math.abs(probabilities.reduce((a, b) => a + b, 0) - 1)).toBeLessThan(1e-12);
      });
    }
    expect(positions).toBeGreaterThan(300);
  });

  it("W2: leaf evidence is two distributions over the node's leaves", () => {
    const sums: number[] = [];
    const root = rootNode(stateWith([bash, read], ["one", "two"]));
    let n = 0;
    walk(root, variedSnapshot().weights, vocabulary.speller, {
      choose: ({ ids }) => n++ % ids.length,
      leave: ({ prior, posterior }) => {
        for (const array of [prior, posterior]) sums.push(array.reduce((a, b) => a + b, 0));
      },
    });
    expect(sums.length).toBeGreaterThan(0);
    for (const sum of sums) expect(sum).toBeCloseTo(1, 12);
  });
});
