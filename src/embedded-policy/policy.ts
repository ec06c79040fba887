/**
 * The embedded policy: samples completions and scores given ones. A policy over a small grammar, not a language model.
 *
 * P1. `generate` and `score` are synchronous pure functions of the ids, the weights and the sampling settings.
 * P2. `score` of a generated completion, under the same weights and settings, returns its log probabilities exactly.
 * P3. Any prompt ids get an answer, in work linear in the prompt.
 * P4. A completion has at most `maxTokens` ids, and exactly so many when it was cut.
 */
import { PolicyError } from "./errors.js";
import { rootNode } from "./grammar.js";
import { promptState } from "./prompt-state.js";
import { checkSampling, drawIndex, processedProbabilities, uniformStream } from "./sampler.js";
import { type StructureIds, structureIds } from "./turns.js";
import type { Generation, PolicySampling, PolicySnapshot, Score } from "./types.js";
import type { Qwen3Vocabulary } from "./vocabulary.js";
import { type LeafEvidence, type TokenDistribution, walk } from "./walk.js";

/** See the module header. Holds no weights and no state between calls but a bounded cache of spellings. */
export class EmbeddedPolicy {
  readonly #vocabulary: Qwen3Vocabulary;
  readonly #structure: StructureIds;

  constructor(vocabulary: Qwen3Vocabulary) {
    this.#vocabulary = vocabulary;
    this.#structure = structureIds(vocabulary);
  }

  /**
   * Samples one completion of the prompt.
   *
   * @throws RangeError when a sampling setting is out of range; never because of the prompt.
   */
  generate(snapshot: PolicySnapshot, promptIds: Int32Array, sampling: PolicySampling): Generation {
    checkSampling(sampling);
    const uniform = uniformStream(sampling.seed);
    const tokenIds: number[] = [];
    const raw: number[] = [];
    const processed: number[] = [];
    const finished = walk(this.#root(promptIds), snapshot.weights, this.#vocabulary.speller, {
      choose(distribution) {
        if (tokenIds.length === sampling.maxTokens) return undefined; // P4
        const shaped = processedProbabilities(distribution, sampling);
        const index = drawIndex(shaped, sampling.temperature === 0 ? 0 : uniform());
        tokenIds.push(distribution.ids[index] ?? 0);
        raw.push(Math.log(distribution.probabilities[index] ?? 0));
        processed.push(Math.log(shaped[index] ?? 0));
        return index;
      },
    });
    return {
      tokenIds: Int32Array.from(tokenIds),
      rawLogProbs: Float64Array.from(raw),
      processedLogProbs: Float64Array.from(processed),
      finishReason: finished ? "stop" : "length",
    };
  }

  /**
   * Log probabilities of given ids, which may be a completion or its beginning. `seed` and `maxTokens` do not matter.
   *
   * A token that top_p, top_k or temperature 0 would never draw has processed log probability −Infinity.
   *
   * @throws RangeError when a sampling setting is out of range.
   * @throws PolicyError `OFF_GRAMMAR` when the ids are no path of this prompt's grammar.
   */
  score(
    snapshot: PolicySnapshot,
    promptIds: Int32Array,
    tokenIds: Int32Array,
    sampling: PolicySampling,
  ): Score {
    checkSampling(sampling);
    const rawLogProbs = new Float64Array(tokenIds.length);
    const processedLogProbs = new Float64Array(tokenIds.length);
    this.replay(snapshot.weights, promptIds, tokenIds, (at, index, distribution) => {
      rawLogProbs[at] = Math.log(distribution.probabilities[index] ?? 0);
      const shaped = processedProbabilities(distribution, sampling);
      processedLogProbs[at] = Math.log(shaped[index] ?? 0);
    });
    return { rawLogProbs, processedLogProbs };
  }

  /**
   * Walks given ids and reports each token's distribution and each node's evidence. For scoring and for gradients.
   *
   * @throws PolicyError `OFF_GRAMMAR` when the ids are no path of this prompt's grammar.
   */
  replay(
    weights: Float64Array,
    promptIds: Int32Array,
    tokenIds: Int32Array,
    onToken: (at: number, index: number, distribution: TokenDistribution) => void,
    onLeave?: (evidence: LeafEvidence) => void,
  ): void {
    let at = 0;
    walk(this.#root(promptIds), weights, this.#vocabulary.speller, {
      choose(distribution) {
        if (at === tokenIds.length) return undefined;
        const index = distribution.ids.indexOf(tokenIds[at] ?? -1);
        if (index < 0) throw offGrammar(tokenIds, at);
        onToken(at++, index, distribution);
        return index;
      },
      ...(onLeave && { leave: onLeave }),
    });
    if (at < tokenIds.length) throw offGrammar(tokenIds, at);
  }

  #root(promptIds: Int32Array) {
    return rootNode(promptState(promptIds, this.#vocabulary, this.#structure));
  }
}

function offGrammar(tokenIds: Int32Array, at: number): PolicyError {
  const where = `token ${at} of ${tokenIds.length}, id ${tokenIds[at]},`;
  return new PolicyError("OFF_GRAMMAR", `${where} does not fit the grammar of the prompt`);
}
