/**
 * What a trainer would have that keeps text only: the ids that encoding the text again gives. The captured log
 * probabilities no longer belong to them, so such a trainer computes its own.
 */
import { EmbeddedPolicy, loadQwen3Vocabulary } from "corral/embedded-policy";

const vocabulary = await loadQwen3Vocabulary();
const policy = new EmbeddedPolicy(vocabulary);
const NEUTRAL = { temperature: 1, topP: 1, topK: 0, seed: 0, maxTokens: 1 };

const again = async (ids) => [...(await vocabulary.encode(vocabulary.decode(ids)))];
const sum = (values) => values.reduce((a, b) => a + b, 0);

/**
 * The row with its ids encoded again, and how far off it is: calls, calls that changed, calls that the policy cannot have
 * sampled any more, and the KL error per token that its trainer sees.
 */
export async function retokenised(row, snapshot) {
  const figures = { calls: 0, changed: 0, impossible: 0, tokens: 0, klError: 0 };
  const calls = [];
  for (const item of row.response.output) {
    if (item.generation_token_ids === undefined) continue;
    const promptIds = Int32Array.from(await again(item.prompt_token_ids));
    const tokenIds = Int32Array.from(await again(item.generation_token_ids));
    figures.calls++;
    const same =
      tokenIds.length === item.generation_token_ids.length &&
      tokenIds.every((id, at) => id === item.generation_token_ids[at]);
    if (!same) figures.changed++;
    try {
      const { processedLogProbs } = policy.score(snapshot, promptIds, tokenIds, NEUTRAL);
      const difference = sum(processedLogProbs) - sum(item.generation_log_probs);
      figures.klError += Math.expm1(difference) - difference;
      figures.tokens += tokenIds.length;
      calls.push({ promptIds, tokenIds });
    } catch (error) {
      if (error.code !== "OFF_GRAMMAR") throw error;
      figures.impossible++;
    }
  }
  return { calls, figures };
}
