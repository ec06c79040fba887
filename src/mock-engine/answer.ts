/** An answer before it has a server's shape, and how it is sampled. */
import {
  EmbeddedPolicy,
  type PolicySampling,
  type PolicySnapshot,
  type Qwen3Vocabulary,
} from "../embedded-policy/index.js";

/** An answer that is given instead of a sampled one: a text, or ids with their log probabilities. */
export type ScriptedAnswer =
  | { readonly text: string }
  | { readonly token_ids: readonly number[]; readonly log_probs?: readonly number[] };

/** Sampling parameters as the wire has them. */
export interface MockSampling {
  readonly temperature: number;
  readonly top_p: number;
  /** 0 or below means no limit. */
  readonly top_k: number;
  readonly max_tokens: number;
  readonly seed: number;
}

/** Which distribution log probabilities are of. */
export type MockLogProbs = "raw" | "processed" | "tempered";

/** Which weights an answer says it is from. */
export interface MockWeights {
  readonly version: number;
  /** Index of their first generated token, and the index after their last one. */
  readonly start: number;
  readonly end: number;
}

export interface MockAnswer {
  readonly promptIds: readonly number[];
  readonly promptTokens: number;
  /** Undefined and null are faults. */
  readonly tokenIds: readonly number[] | undefined;
  readonly logProbs: readonly (number | null)[] | undefined;
  /** The highest log probability at the first place. */
  readonly topLogProb: number | undefined;
  readonly completionTokens: number;
  readonly finishReason: "stop" | "length" | "abort";
}

export class MockSampler {
  readonly #policy: EmbeddedPolicy;
  readonly #vocabulary: Qwen3Vocabulary;
  readonly #snapshot: PolicySnapshot;
  readonly #script: ScriptedAnswer[];

  constructor(
    vocabulary: Qwen3Vocabulary,
    snapshot: PolicySnapshot,
    script: readonly ScriptedAnswer[],
  ) {
    this.#policy = new EmbeddedPolicy(vocabulary);
    this.#vocabulary = vocabulary;
    this.#snapshot = snapshot;
    this.#script = [...script];
  }

  add(answers: readonly ScriptedAnswer[]): void {
    this.#script.push(...answers);
  }

  /** The next scripted answer, else a sampled one. */
  async answer(
    promptIds: readonly number[],
    sampling: MockSampling,
    mode: MockLogProbs,
  ): Promise<MockAnswer> {
    const scripted = this.#script.shift();
    const sampled =
      scripted === undefined
        ? this.#sampled(promptIds, sampling, mode)
        : await this.#scripted(scripted);
    const { ids, logProbs, topLogProb } = sampled;
    const cut = Math.min(ids.length, sampling.max_tokens);
    return {
      promptIds,
      promptTokens: promptIds.length,
      tokenIds: ids.slice(0, cut),
      logProbs: logProbs.slice(0, cut),
      topLogProb,
      completionTokens: cut,
      finishReason: sampled.isFinished && cut === ids.length ? "stop" : "length",
    };
  }

  #sampled(promptIds: readonly number[], sampling: MockSampling, mode: MockLogProbs) {
    const prompt = Int32Array.from(promptIds);
    const settings = policySampling(sampling);
    const generation = this.#policy.generate(this.#snapshot, prompt, settings);
    const ids = generation.tokenIds;
    return {
      ids: Array.from(ids),
      logProbs: Array.from(this.#logProbs(prompt, ids, settings, mode)),
      topLogProb: this.#topLogProb(prompt, settings, mode),
      isFinished: generation.finishReason === "stop",
    };
  }

  #logProbs(prompt: Int32Array, ids: Int32Array, settings: PolicySampling, mode: MockLogProbs) {
    const shown = mode === "tempered" ? { ...settings, topP: 1, topK: 0 } : settings;
    const score = this.#policy.score(this.#snapshot, prompt, ids, shown);
    return mode === "raw" ? score.rawLogProbs : score.processedLogProbs;
  }

  #topLogProb(prompt: Int32Array, settings: PolicySampling, mode: MockLogProbs) {
    const greedy = { ...settings, temperature: 0, maxTokens: 1 };
    const { tokenIds } = this.#policy.generate(this.#snapshot, prompt, greedy);
    return this.#logProbs(prompt, tokenIds, settings, mode)[0];
  }

  async #scripted(answer: ScriptedAnswer) {
    const ids =
      "text" in answer
        ? Array.from(await this.#vocabulary.encode(answer.text))
        : [...answer.token_ids];
    const given = "log_probs" in answer ? answer.log_probs : undefined;
    return { ids, logProbs: given ?? ids.map(() => -0.5), topLogProb: -0.5, isFinished: true };
  }
}

function policySampling({ temperature, top_p, top_k, max_tokens, seed }: MockSampling) {
  const topK = Math.max(0, top_k);
  return { temperature, topP: top_p, topK, maxTokens: max_tokens, seed: seed >>> 0 };
}
