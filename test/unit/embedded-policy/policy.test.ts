import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  EmbeddedPolicy,
  loadQwen3Vocabulary,
  type PolicySampling,
  snapshotOf,
  untrainedSnapshot,
} from "../../../src/embedded-policy/index.js";
import { claudeTools, fn, promptIds, systemMessage, toolCall } from "../../support/qwen3-prompt.js";
import { variedSnapshot } from "../../support/varied-snapshot.js";

const vocabulary = await loadQwen3Vocabulary();
const policy = new EmbeddedPolicy(vocabulary);
const untrained = untrainedSnapshot();
const varied = variedSnapshot();
const user = (content: string) => ({ role: "user", content });

const write = await promptIds([
  systemMessage,
  user("Write the word apple into the file notes.txt."),
]);
const second = await promptIds([
  systemMessage,
  user("Read the file notes.txt and answer with its content."),
  toolCall("Bash", { command: "cat notes.txt" }),
  { role: "tool", content: 'some "quoted" text\nand more' },
]);
const chat = await promptIds([user("Say hello, please.")], []);
const prompts = [write, second, chat];

const defaults: PolicySampling = { temperature: 1, topP: 1, topK: 0, seed: 0, maxTokens: 512 };
const samplings = fc.record({
  temperature: fc.oneof(fc.constantFrom(0, 1, 1e-9), fc.double({ min: 0.05, max: 3, noNaN: true })),
  topP: fc.oneof(fc.constant(1), fc.double({ min: 0.01, max: 1, noNaN: true })),
  topK: fc.constantFrom(0, 1, 2, 5, 1000),
  seed: fc.integer({ min: 0, max: 0xffffffff }),
  maxTokens: fc.oneof(fc.constant(512), fc.integer({ min: 1, max: 40 })),
});

describe("EmbeddedPolicy", () => {
  it("P1: the same seed gives the same completion, another seed another one", () => {
    const texts = Array.from({ length: 20 }, (_, seed) => {
      const first = policy.generate(varied, write, { ...defaults, seed });
      expect(policy.generate(varied, write, { ...defaults, seed })).toEqual(first);
      return vocabulary.decode(first.tokenIds);
    });
    expect(new Set(texts).size).toBeGreaterThan(5);
  });

  it("P2: score of what was generated is what was captured, exactly", () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...prompts),
        fc.constantFrom(untrained, varied),
        samplings,
        (prompt, snapshot, sampling) => {
          const generation = policy.generate(snapshot, prompt, sampling);
          const score = policy.score(snapshot, prompt, generation.tokenIds, sampling);
          expect(score.rawLogProbs).toEqual(generation.rawLogProbs);
          expect(score.processedLogProbs).toEqual(generation.processedLogProbs);
          for (const array of [score.rawLogProbs, score.processedLogProbs])
            for (const value of array) expect(value > -1000 && value <= 1e-6).toBe(true);
        },
      ),
      { numRuns: 400 },
    );
  });

  it("P2: at temperature 0 every processed log probability is 0 and raw ones are not", () => {
    const generation = policy.generate(varied, write, { ...defaults, temperature: 0 });
    expect([...generation.processedLogProbs].every((p) => p === 0)).toBe(true);
    expect(Math.min(...generation.rawLogProbs)).toBeLessThan(-0.1);
  });

  it("P2: at temperature 1 without filters raw and processed are equal", () => {
    const { rawLogProbs, processedLogProbs } = policy.generate(varied, second, {
      ...defaults,
      seed: 3,
    });
    rawLogProbs.forEach((raw, i) => {
      expect(processedLogProbs[i]).toBeCloseTo(raw, 12);
    });
  });

  it("frequencies of the first token follow its raw probability", () => {
    const counts = new Map<number, { n: number; p: number }>();
    const runs = 2000;
    for (let seed = 0; seed < runs; seed++) {
      const { tokenIds, rawLogProbs } = policy.generate(untrained, chat, {
        ...defaults,
        seed,
        maxTokens: 1,
      });
      const entry = counts.get(tokenIds[0]!) ?? { n: 0, p: Math.exp(rawLogProbs[0]!) };
      entry.n++;
      counts.set(tokenIds[0]!, entry);
    }
    for (const { n, p } of counts.values())
      expect(Math.abs(n / runs - p)).toBeLessThan(5 * Math.sqrt((p * (1 - p)) / runs) + 1e-3);
  });

  it("processed log probability of a filtered token is −Infinity", () => {
    const { tokenIds } = policy.generate(untrained, write, { ...defaults, seed: 1 });
    const greedy = policy.generate(untrained, write, { ...defaults, temperature: 0 });
    expect(tokenIds).not.toEqual(greedy.tokenIds);
    const score = policy.score(untrained, write, tokenIds, { ...defaults, temperature: 0 });
    expect(Math.min(...score.processedLogProbs)).toBe(Number.NEGATIVE_INFINITY);
    expect([...score.rawLogProbs].every(Number.isFinite)).toBe(true);
  });

  it("refuses ids that are off the grammar", () => {
    const { tokenIds } = policy.generate(untrained, write, defaults);
    const score = (ids: Int32Array) => () => policy.score(untrained, write, ids, defaults);
    const code = "OFF_GRAMMAR";
    expect(score(Int32Array.of(99_999))).toThrow(expect.objectContaining({ code }));
    expect(score(Int32Array.of(...tokenIds, 198))).toThrow(expect.objectContaining({ code }));
    expect(score(Int32Array.of(...tokenIds.subarray(0, -1), 0))).toThrow(
      expect.objectContaining({ code }),
    );
    expect(score(tokenIds.subarray(0, 3))).not.toThrow();
    expect(score(new Int32Array(0))).not.toThrow();
  });

  it("between a tenth and nearly a half of the completions drift when re-encoded", async () => {
    let drifted = 0;
    for (let seed = 0; seed < 300; seed++) {
      const { tokenIds } = policy.generate(untrained, prompts[seed % 2]!, { ...defaults, seed });
      const again = await vocabulary.encode(vocabulary.decode(tokenIds));
      if (again.join() !== tokenIds.join()) drifted++;
    }
    expect(drifted / 300).toBeGreaterThan(0.1);
    expect(drifted / 300).toBeLessThan(0.45);
  });

  it("P4: a cut completion has exactly maxTokens ids; a whole one ends its turn", () => {
    const whole = policy.generate(untrained, write, defaults);
    expect([whole.finishReason, whole.tokenIds.at(-1)]).toEqual(["stop", 151645]);
    const n = whole.tokenIds.length;
    for (let maxTokens = 1; maxTokens < n; maxTokens++) {
      const cut = policy.generate(untrained, write, { ...defaults, maxTokens });
      expect([cut.finishReason, cut.tokenIds]).toEqual([
        "length",
        whole.tokenIds.subarray(0, maxTokens),
      ]);
    }
    expect(policy.generate(untrained, write, { ...defaults, maxTokens: n }).finishReason).toBe(
      "stop",
    );
  });

  it("P3: any prompt gets an answer", () => {
    const special = fc.integer({ min: 151643, max: 151668 });
    const anyId = fc.oneof(
      special,
      fc.integer({ min: -5, max: 152_000 }),
      fc.constantFrom(872, 198, 8948, 77091),
    );
    const { seed: _, ...rest } = defaults;
    fc.assert(
      fc.property(fc.array(anyId, { maxLength: 60 }), fc.nat(1000), (ids, seed) => {
        const { tokenIds, finishReason } = policy.generate(untrained, Int32Array.from(ids), {
          ...rest,
          seed,
        });
        expect(finishReason).toBe("stop");
        expect(tokenIds.length).toBeLessThan(200);
      }),
      { numRuns: 500 },
    );
  });

  it("P3: a prompt of a million ids costs a bounded time", async () => {
    const long = await promptIds([systemMessage, user("word ".repeat(200_000))]);
    const start = performance.now();
    policy.generate(untrained, long, defaults);
    expect(performance.now() - start).toBeLessThan(3000);
  });

  it.each([
    [{ temperature: -1 }, "temperature is -1"],
    [{ temperature: Number.NaN }, "temperature"],
    [{ topP: 0 }, "topP is 0"],
    [{ topP: 1.1 }, "topP"],
    [{ topK: -1 }, "topK is -1"],
    [{ topK: 0.5 }, "topK"],
    [{ seed: 2 ** 32 }, "seed"],
    [{ maxTokens: 0 }, "maxTokens is 0"],
  ])("refuses %j by name", (bad, message) => {
    expect(() => policy.generate(untrained, write, { ...defaults, ...bad })).toThrow(RangeError);
    expect(() => policy.generate(untrained, write, { ...defaults, ...bad })).toThrow(message);
  });

  it("offers an answer only when there are no tools", () => {
    for (let seed = 0; seed < 40; seed++) {
      const { tokenIds } = policy.generate(varied, chat, { ...defaults, seed });
      expect(tokenIds.includes(vocabulary.specialId("<tool_call>"))).toBe(false);
    }
  });

  it("takes snapshots over shared memory from another thread's view", () => {
    const copy = new Float64Array(varied.weights.buffer);
    expect(varied.weights.buffer).toBeInstanceOf(SharedArrayBuffer);
    const view = { ...snapshotOf(new Float64Array(copy.length), 0), weights: copy };
    expect(policy.generate(view, write, defaults)).toEqual(
      policy.generate(varied, write, defaults),
    );
  });

  it("follows the tools of the request", async () => {
    const ids = await promptIds([systemMessage, user("go")], [...claudeTools, fn("ping", {}, [])]);
    const seen = new Set<string>();
    for (let seed = 0; seed < 300; seed++) {
      const text = vocabulary.decode(
        policy.generate(untrained, ids, { ...defaults, seed }).tokenIds,
      );
      const call = /^<tool_call>\n(.*)\n<\/tool_call><\|im_end\|>$/.exec(text)?.[1];
      if (call) seen.add((JSON.parse(call) as { name: string }).name);
    }
    expect([...seen].sort()).toEqual(["Bash", "Edit", "Read", "Write", "ping"]);
  });
});
