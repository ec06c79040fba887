import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, describe, expect, it } from "vitest";
import { GradientSum } from "../../../src/embedded-policy/gradient.js";
import {
  EmbeddedPolicy,
  groupAdvantages,
  groupSamples,
  initialOptimizer,
  learningRateAt,
  loadQwen3Vocabulary,
  loadTrainerState,
  type PolicySampling,
  policyGradientUpdate,
  saveTrainerState,
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
const plain = { entropyBonus: 0, clip: 0.2, kl: null };
const sum = (values: Float64Array) => values.reduce((a, b) => a + b, 0);

function sampled(seed: number, snapshot = varied) {
  const { tokenIds, processedLogProbs } = policy.generate(snapshot, prompt, { ...defaults, seed });
  return { promptIds: prompt, tokenIds, logProbs: processedLogProbs };
}

function gradientOf(sample: Parameters<GradientSum["add"]>[2], settings = plain) {
  const gradient = new GradientSum();
  gradient.add(policy, varied.weights, sample, settings);
  return gradient;
}

describe("advantages", () => {
  it("O1. equal rewards have none, also where their mean rounds", () => {
    fc.assert(
      fc.property(
        fc.double({ noNaN: true, min: -5, max: 5 }),
        fc.integer({ min: 0, max: 9 }),
        (reward, count) => {
          expect(groupAdvantages(Array(count).fill(reward))).toEqual(Array(count).fill(0));
        },
      ),
    );
  });

  it("sum to 0, keep the order of the rewards, and stay small where rewards differ by a trifle", () => {
    fc.assert(
      fc.property(
        fc.array(fc.double({ noNaN: true, min: 0, max: 1 }), { minLength: 2 }),
        (rewards) => {
          const advantages = groupAdvantages(rewards);
          expect(Math.abs(advantages.reduce((a, b) => a + b, 0))).toBeLessThan(1e-9);
          for (const [i, reward] of rewards.entries())
            for (const [j, other] of rewards.entries())
              if (reward > other) expect(advantages[i]).toBeGreaterThanOrEqual(advantages[j]!);
        },
      ),
    );
    expect(Math.max(...groupAdvantages([0.5, 0.503]))).toBeLessThan(0.02);
    expect(() => groupAdvantages([1, Number.NaN])).toThrow("reward is NaN");
  });

  it("every call of a rollout has its rollout's", () => {
    const calls = [sampled(1), sampled(2)];
    const samples = groupSamples([
      { reward: 1, calls },
      { reward: 0, calls: [sampled(3)] },
    ]);
    expect(samples.map(({ advantage }) => Math.sign(advantage))).toEqual([1, 1, -1]);
    expect(samples[0]?.advantage).toBe(samples[1]?.advantage);
  });

  it("a learning rate follows its line and then stays", () => {
    const rate = { from: 1, to: 0.25, steps: 4 };
    expect([0, 2, 4, 9].map((step) => learningRateAt(rate, step))).toEqual([1, 0.625, 0.25, 0.25]);
    expect(learningRateAt(0.3, 7)).toBe(0.3);
  });
});

describe("the gradient", () => {
  it.each([0, 1, 2, 3, 4, 5])("E3. under the sampling weights nothing differs, seed %d", (seed) => {
    const { figures } = gradientOf({ ...sampled(seed), advantage: 1 });
    expect(figures).toMatchObject({ maxLogProbDifference: 0, klErrorSum: 0, clippedNodes: 0 });
    expect(figures.compared).toBe(figures.tokens);
    const { logProbs: _, ...bare } = sampled(seed);
    expect([...gradientOf({ ...sampled(seed), advantage: 1 }).slopes]).toEqual([
      ...gradientOf({ ...bare, advantage: 1 }).slopes,
    ]);
  });

  it("E2. a ratio out of its bounds has no gradient in the direction of the advantage, and its full one back", () => {
    const sample = sampled(2);
    const shifted = (by: number) => sample.logProbs.map((value) => value + by);
    const of = (by: number, advantage: number) => {
      const gradient = gradientOf({ ...sample, logProbs: shifted(by), advantage });
      return { size: gradient.slopes.size, ...gradient.figures };
    };
    // Captured far less likely than now: the ratio is large.
    expect(of(-2, 1)).toMatchObject({ size: 0 });
    expect(of(-2, 1).clippedNodes).toBe(of(-2, 1).nodes);
    expect(of(-2, -1).clippedNodes).toBe(0);
    expect(of(2, -1)).toMatchObject({ size: 0 });
    expect(of(2, 1).clippedNodes).toBe(0);
    expect(of(0.01, 1).klErrorSum).toBeGreaterThan(0);
  });

  it("a KL pull brings the policy back to its reference", () => {
    const sample = sampled(1);
    const reference = untrainedSnapshot();
    const far = () => sum(policy.score(varied, prompt, sample.tokenIds, defaults).rawLogProbs);
    let { snapshot, optimizer } = { snapshot: varied, optimizer: initialOptimizer() };
    const distance = (weights: Float64Array) => {
      const goal = policy.score(reference, prompt, sample.tokenIds, defaults).rawLogProbs;
      const now = policy.score(
        { ...varied, weights },
        prompt,
        sample.tokenIds,
        defaults,
      ).rawLogProbs;
      return Math.abs(sum(now) - sum(goal));
    };
    const before = distance(varied.weights);
    expect(far()).toBeLessThan(0);
    for (let step = 0; step < 30; step++)
      ({ snapshot, optimizer } = policyGradientUpdate(
        policy,
        snapshot,
        optimizer,
        [{ promptIds: prompt, tokenIds: sample.tokenIds, advantage: 0 }],
        { entropyBonus: 0, klCoefficient: 1, reference, learningRate: 0.2 },
      ));
    expect(distance(snapshot.weights)).toBeLessThan(before / 4);
  });

  it("refuses log probabilities that do not fit, and a KL without a reference", () => {
    const sample = { ...sampled(1), advantage: 1 };
    const short = { ...sample, logProbs: sample.logProbs.subarray(1) };
    expect(() => gradientOf(short)).toThrow(/log probabilities for \d+ tokens/);
    const broken = { ...sample, logProbs: sample.logProbs.map(() => Number.NaN) };
    expect(() => gradientOf(broken)).toThrow("must be finite");
    const update = () =>
      policyGradientUpdate(policy, varied, initialOptimizer(), [sample], { klCoefficient: 1 });
    expect(update).toThrow("without a reference");
  });
});

describe("a trainer's state", () => {
  it("S1. S2. comes back bit for bit with its notes, and damage is refused", async () => {
    const dir = await mkdtemp(join(tmpdir(), "corral-trainer-"));
    afterAll(() => rm(dir, { recursive: true }));
    const path = join(dir, "state");
    const samples = groupSamples([
      { reward: 1, calls: [sampled(1)] },
      { reward: 0, calls: [sampled(2)] },
    ]);
    const start = snapshotOf(new Float64Array(2 ** 18), 4);
    const { snapshot, optimizer } = policyGradientUpdate(
      policy,
      start,
      initialOptimizer(),
      samples,
    );
    const notes = { slots: ["1.0.0"], step: 5 };
    await saveTrainerState(path, { snapshot, optimizer, notes });
    const loaded = await loadTrainerState(path);
    expect(loaded.snapshot).toMatchObject({ version: 5, digest: snapshot.digest });
    const bytesOf = (values: Float64Array) => Buffer.from(values.buffer);
    expect(bytesOf(loaded.optimizer.squares).equals(bytesOf(optimizer.squares))).toBe(true);
    expect(loaded.notes).toEqual(notes);

    const bytes = await readFile(path);
    const cuts = Array.from({ length: 20 }, (_, i) => Math.floor((i * bytes.length) / 20));
    for (const cut of cuts) {
      await writeFile(path, bytes.subarray(0, cut));
      await expect(loadTrainerState(path)).rejects.toMatchObject({ code: "CHECKPOINT_INVALID" });
    }
    const flipped = Buffer.from(bytes);
    flipped.writeUInt8(flipped.readUInt8(bytes.length - 9) ^ 1, bytes.length - 9);
    await writeFile(path, flipped);
    await expect(loadTrainerState(path)).rejects.toMatchObject({ code: "CHECKPOINT_INVALID" });
    const newer = Buffer.from(bytes);
    newer.writeUInt32LE(2, 8);
    await writeFile(path, newer);
    await expect(loadTrainerState(path)).rejects.toMatchObject({ code: "CHECKPOINT_TOO_NEW" });
  });
});
