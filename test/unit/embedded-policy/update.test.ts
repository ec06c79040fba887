import { describe, expect, it } from "vitest";
import { GradientSum } from "../../../src/embedded-policy/gradient.js";
import {
  EmbeddedPolicy,
  initialOptimizer,
  loadQwen3Vocabulary,
  type PolicySampling,
  policyGradientUpdate,
  snapshotOf,
  untrainedSnapshot,
} from "../../../src/embedded-policy/index.js";
import { promptIds, systemMessage, toolCall } from "../../support/qwen3-prompt.js";
import { variedSnapshot } from "../../support/varied-snapshot.js";

const policy = new EmbeddedPolicy(await loadQwen3Vocabulary());
const varied = variedSnapshot();
const prompt = await promptIds([
  systemMessage,
  { role: "user", content: "Copy the content of the file notes.txt to data.txt." },
  toolCall("Bash", { command: "cat notes.txt" }),
  { role: "tool", content: "apple data.txt" },
]);
const defaults: PolicySampling = { temperature: 1, topP: 1, topK: 0, seed: 0, maxTokens: 512 };
const sum = (values: Float64Array) => values.reduce((a, b) => a + b, 0);

/** Numeric derivative of Σ log p by central differences of fourth order. */
function numericSlope(tokenIds: Int32Array, index: number): number {
  const at = (shift: number) => {
    const weights = Float64Array.from(varied.weights);
    weights[index] = weights[index]! + shift;
    const raw = policy.score({ ...varied, weights }, prompt, tokenIds, defaults).rawLogProbs;
    return sum(raw);
  };
  const h = 1e-2;
  return (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h);
}

describe("policyGradientUpdate", () => {
  it.each([0, 1, 2, 3, 4, 5])("U1: the gradient is the numeric one, seed %d", (seed) => {
    const maxTokens = seed < 4 ? 512 : 9; // a completion that was cut as well
    const { tokenIds } = policy.generate(varied, prompt, { ...defaults, seed, maxTokens });
    const sum = new GradientSum();
    const sample = { promptIds: prompt, tokenIds, advantage: 1 };
    sum.add(policy, varied.weights, sample, { entropyBonus: 0, clip: 0.2, kl: null });
    const gradient = [...sum.slopes];
    const largest = gradient.sort((a, b) => Math.abs(b[1]) - Math.abs(a[1])).slice(0, 6);
    for (const [index, slope] of largest) {
      const numeric = numericSlope(tokenIds, index);
      expect(Math.abs(numeric - slope)).toBeLessThan(1e-6 * Math.max(1, Math.abs(slope)));
    }
  });

  it("makes a completion likelier with a positive advantage and unlikelier with a negative one", () => {
    const { tokenIds, rawLogProbs } = policy.generate(varied, prompt, { ...defaults, seed: 2 });
    for (const advantage of [1, -1]) {
      const samples = [{ promptIds: prompt, tokenIds, advantage }];
      const options = { learningRate: 0.1, entropyBonus: 0 };
      const { snapshot } = policyGradientUpdate(
        policy,
        varied,
        initialOptimizer(),
        samples,
        options,
      );
      const after = policy.score(snapshot, prompt, tokenIds, defaults).rawLogProbs;
      expect(Math.sign(sum(after) - sum(rawLogProbs))).toBe(advantage);
    }
  });

  it("the entropy bonus alone flattens the policy", () => {
    const { tokenIds } = policy.generate(varied, prompt, { ...defaults, temperature: 0 });
    const samples = [{ promptIds: prompt, tokenIds, advantage: 0 }];
    const before = sum(policy.score(varied, prompt, tokenIds, defaults).rawLogProbs);
    const options = { learningRate: 0.05, entropyBonus: 1 };
    const { snapshot } = policyGradientUpdate(policy, varied, initialOptimizer(), samples, options);
    expect(sum(policy.score(snapshot, prompt, tokenIds, defaults).rawLogProbs)).toBeLessThan(
      before,
    );
  });

  it("U2: writes to neither the snapshot nor the optimiser state it was given", () => {
    const snapshot = snapshotOf(varied.weights, 7);
    const optimizer = initialOptimizer();
    const { tokenIds } = policy.generate(snapshot, prompt, defaults);
    const samples = [{ promptIds: prompt, tokenIds, advantage: 1 }];
    const first = policyGradientUpdate(policy, snapshot, optimizer, samples);
    expect(snapshotOf(snapshot.weights, 7).digest).toBe(snapshot.digest);
    expect(optimizer.squares.every((x) => x === 0)).toBe(true);
    expect(first.snapshot.version).toBe(8);
    expect(first.snapshot.digest).not.toBe(snapshot.digest);
    expect(first.snapshot.weights.buffer).not.toBe(snapshot.weights.buffer);
    const second = policyGradientUpdate(policy, snapshot, optimizer, samples);
    expect(second.snapshot.digest).toBe(first.snapshot.digest);
  });

  it("without a signal nothing changes", () => {
    const { tokenIds } = policy.generate(varied, prompt, defaults);
    const samples = [{ promptIds: prompt, tokenIds, advantage: 0 }];
    const update = policyGradientUpdate(policy, varied, initialOptimizer(), samples, {
      entropyBonus: 0,
    });
    expect(update.snapshot.digest).toBe(varied.digest);
  });

  it("refuses what is not finite, and ids of another prompt", () => {
    const update = (advantage: number, tokenIds: Int32Array, learningRate = 0.5) =>
      policyGradientUpdate(
        policy,
        untrainedSnapshot(),
        initialOptimizer(),
        [{ promptIds: prompt, tokenIds, advantage }],
        { learningRate },
      );
    expect(() => update(Number.NaN, new Int32Array(0))).toThrow("advantage is NaN");
    expect(() => update(1, new Int32Array(0), Number.NaN)).toThrow("learningRate is NaN");
    const offGrammar = expect.objectContaining({ code: "OFF_GRAMMAR" });
    expect(() => update(1, Int32Array.of(99_999))).toThrow(offGrammar);
  });
});
