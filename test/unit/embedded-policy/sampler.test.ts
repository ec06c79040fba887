import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  drawIndex,
  processedProbabilities,
  uniformStream,
} from "../../../src/embedded-policy/sampler.js";

const base = { temperature: 1, topP: 1, topK: 0, seed: 0, maxTokens: 1 };
const of = (...probabilities: number[]) => ({ ids: probabilities.map((_, i) => i), probabilities });
const shaped = (probabilities: number[], change: object) =>
  processedProbabilities(of(...probabilities), { ...base, ...change }).map((p) =>
    Number(p.toFixed(6)),
  );

describe("processedProbabilities", () => {
  it("temperature raises to the power 1/T", () => {
    expect(shaped([0.8, 0.2], { temperature: 0.5 })).toEqual([0.941176, 0.058824]);
    expect(shaped([0.8, 0.2], { temperature: 1e-12 })).toEqual([1, 0]);
    expect(shaped([0.2, 0.8], { temperature: 0 })).toEqual([0, 1]);
  });

  it("top_k keeps the k most probable, the first of equals", () => {
    expect(shaped([0.2, 0.5, 0.3], { topK: 2 })).toEqual([0, 0.625, 0.375]);
    expect(shaped([0.25, 0.25, 0.25, 0.25], { topK: 1 })).toEqual([1, 0, 0, 0]);
  });

  it("top_p keeps the smallest set that reaches p, after top_k", () => {
    expect(shaped([0.5, 0.3, 0.2], { topP: 0.5 })).toEqual([1, 0, 0]);
    expect(shaped([0.5, 0.3, 0.2], { topP: 0.51 })).toEqual([0.625, 0.375, 0]);
    expect(shaped([0.4, 0.4, 0.2], { topK: 2, topP: 0.6 })).toEqual([0.5, 0.5, 0]);
    expect(shaped([0.5, 0.5], { topP: 1e-9 })).toEqual([1, 0]);
  });

  it("sums to 1 and keeps the most probable token whatever the settings", () => {
    const masses = fc.array(fc.double({ min: 1e-300, max: 1, noNaN: true }), {
      minLength: 1,
      maxLength: 30,
    });
    const settings = fc.record({
      temperature: fc.double({ min: 0, max: 1e6, noNaN: true }),
      topP: fc.double({ min: 1e-12, max: 1, noNaN: true }),
      topK: fc.nat(40),
    });
    fc.assert(
      fc.property(masses, settings, (list, change) => {
        const total = list.reduce((a, b) => a + b, 0);
        const probabilities = list.map((x) => x / total);
        const result = processedProbabilities(of(...probabilities), { ...base, ...change });
        expect(Math.abs(result.reduce((a, b) => a + b, 0) - 1)).toBeLessThan(1e-9);
        // Temperature may round the highest few to one value: any of them may stand for the others.
        const highest = Math.max(...probabilities) * (1 - 1e-12);
        expect(result.some((p, i) => p > 0 && (probabilities[i] ?? 0) >= highest)).toBe(true);
      }),
    );
  });
});

describe("drawIndex", () => {
  it("falls on tokens in proportion and never on one with probability 0", () => {
    expect(drawIndex([0, 0.5, 0.5, 0], 0)).toBe(1);
    expect(drawIndex([0, 0.5, 0.5, 0], 0.5)).toBe(2);
    expect(drawIndex([0, 0.5, 0.5, 0], 1 - 2 ** -32)).toBe(2);
    expect(drawIndex([0.3, 0.3, 0.3, 0], 0.99)).toBe(2);
  });
});

describe("uniformStream", () => {
  it("is the same for the same uint32 seed, uniform, and below 1", () => {
    const [a, b] = [uniformStream(0xffffffff), uniformStream(0xffffffff)];
    const values = Array.from({ length: 10_000 }, () => a());
    expect(Array.from({ length: 10_000 }, () => b())).toEqual(values);
    expect(Math.max(...values)).toBeLessThan(1);
    expect(values.reduce((x, y) => x + y, 0) / values.length).toBeCloseTo(0.5, 1);
    expect(uniformStream(1)()).not.toBe(uniformStream(2)());
  });
});
