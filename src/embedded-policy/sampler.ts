/** Turns a token distribution into the one that is really sampled, and draws from it. */
import type { PolicySampling } from "./types.js";
import type { TokenDistribution } from "./walk.js";

/**
 * Probabilities after temperature, then top_k, then top_p, as vLLM orders them. Tokens that were filtered out have 0;
 * the rest sum to 1. At temperature 0 the first most probable token has 1.
 */
export function processedProbabilities(
  { probabilities }: TokenDistribution,
  { temperature, topK, topP }: PolicySampling,
): number[] {
  const highest = Math.max(...probabilities);
  if (temperature === 0) {
    const best = probabilities.indexOf(highest);
    return probabilities.map((_, i) => (i === best ? 1 : 0));
  }
  // Relative to the highest, so that a low temperature cannot underflow every token.
  const tempered =
    temperature === 1
      ? normalised(probabilities)
      : normalised(probabilities.map((p) => Math.exp(Math.log(p / highest) / temperature)));
  if (topK === 0 && topP === 1) return tempered;
  const order = tempered.map((_, i) => i).sort((a, b) => (tempered[b] ?? 0) - (tempered[a] ?? 0));
  const allowed = order.slice(0, topK === 0 ? order.length : topK);
  const mass = allowed.reduce((sum, i) => sum + (tempered[i] ?? 0), 0);
  const kept = new Set<number>();
  let sum = 0;
  for (const i of allowed) {
    if (sum >= topP) break;
    kept.add(i);
    sum += (tempered[i] ?? 0) / mass;
  }
  return normalised(tempered.map((p, i) => (kept.has(i) ? p : 0)));
}

function normalised(masses: readonly number[]): number[] {
  const total = masses.reduce((a, b) => a + b, 0);
  return masses.map((mass) => mass / total);
}

/** The index that `uniform` in [0, 1) falls on; never one with probability 0. */
export function drawIndex(probabilities: readonly number[], uniform: number): number {
  let left = uniform;
  let last = 0;
  for (const [i, p] of probabilities.entries()) {
    if (p === 0) continue;
    last = i;
    left -= p;
    if (left < 0) break;
  }
  return last;
}

/** Uniform numbers in [0, 1) from a uint32 seed (mulberry32): small, fast, the same everywhere. */
export function uniformStream(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

/** @throws RangeError naming the setting, its value and what is allowed. */
export function checkSampling({ temperature, topP, topK, seed, maxTokens }: PolicySampling): void {
  const check = (ok: boolean, name: string, value: number, allowed: string) => {
    if (!ok) throw new RangeError(`${name} is ${value}; it must be ${allowed}`);
  };
  const isWhole = Number.isSafeInteger;
  check(Number.isFinite(temperature) && temperature >= 0, "temperature", temperature, "at least 0");
  check(topP > 0 && topP <= 1, "topP", topP, "above 0 and at most 1");
  check(isWhole(topK) && topK >= 0, "topK", topK, "a whole number, 0 for no limit");
  check(
    isWhole(seed) && seed >= 0 && seed <= 0xffffffff,
    "seed",
    seed,
    "a whole number below 2^32",
  );
  check(isWhole(maxTokens) && maxTokens >= 1, "maxTokens", maxTokens, "a whole number, at least 1");
}
