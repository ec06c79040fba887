/** Why a rollout's calls are not one chain, with the text of its tokens. */
import {
  type ChainBreak,
  type DecodeTokens,
  explainBreaks,
  type RolloutTree,
  rolloutTree,
} from "../capture/index.js";
import { loadQwen3Vocabulary } from "../embedded-policy/index.js";
import { type RecordsPlace, readRolloutRecords } from "./rollout-records.js";

export interface RolloutExplanation extends RolloutTree {
  readonly breaks: readonly ChainBreak[];
}

/**
 * The calls of the rollout as a tree.
 * @throws ConfigError when the records are not found.
 */
export async function inspectRollout(rolloutId: string, place: RecordsPlace): Promise<RolloutTree> {
  const { entries, options } = await readRolloutRecords(rolloutId, place);
  return rolloutTree(entries, options);
}

/**
 * The calls of the rollout as a tree, and every break between them. Text is decoded with the Qwen3 vocabulary; ids
 * outside it are shown as numbers.
 * @throws ConfigError when the records are not found.
 */
export async function explainRollout(
  rolloutId: string,
  place: RecordsPlace,
): Promise<RolloutExplanation> {
  const { entries, options } = await readRolloutRecords(rolloutId, place);
  const vocabulary = await loadQwen3Vocabulary();
  const decode: DecodeTokens = (ids) =>
    ids.every((id) => id < vocabulary.size) ? vocabulary.decode(ids) : `[${ids.join(" ")}]`;
  return { ...rolloutTree(entries, options), breaks: explainBreaks(entries, options, decode) };
}
