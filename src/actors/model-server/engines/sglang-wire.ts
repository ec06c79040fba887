/**
 * What SGLang's token and chat endpoints have in common.
 *
 * G1. Its log probabilities have the temperature and not top_p, top_k or min_p: with a filter they are not those of
 *     the distribution that was sampled, and the record says so.
 * G2. Ids come twice, by themselves and beside each log probability; they must agree.
 */
import type { LogprobsMode } from "../../../capture/index.js";
import type { PinnedSampling } from "../sampling-pin.js";
import type { TokenGeneration, TokenRequest } from "./engine.js";
import { EngineError } from "./engine-error.js";
import { reportedVersions, versionOf } from "./reported-versions.js";
import { serverFilters } from "./server-sampling.js";
import { isUnfiltered } from "./start.js";
import { BodyWithIds } from "./upstream/id-lists.js";
import { arrayAt, countAt, idsAt, logProbOf, objectAt, promptIdsAt } from "./upstream/json.js";
import { finishReasonOf } from "./vllm-wire.js";

type Json = Readonly<Record<string, unknown>>;

export const SGLANG_PAUSE = { path: "/pause_generation", body: { mode: "in_place" } };
export const SGLANG_RESUME = { path: "/continue_generation", body: {} };

/** G1 */
export function sglangLogprobsMode(sampling: PinnedSampling): LogprobsMode {
  return isUnfiltered(sampling) ? "processed" : "tempered";
}

/** Versions of answers that only tell the one at their end. */
export class SglangVersions {
  /** Of the newest answer. */
  #reported: number | undefined;

  constructor(reported: number | undefined) {
    this.#reported = reported;
  }

  /** The answer with what is known of its versions: spans where there are any, else the last two that were reported. */
  settle({ weightVersion, ...answer }: SglangAnswer): Omit<TokenGeneration, "logprobsMode"> {
    const before = this.#reported;
    this.#reported = weightVersion;
    if (weightVersion === undefined || answer.policyVersionStart !== undefined) return answer;
    return {
      ...answer,
      policyVersionStart: Math.min(before ?? weightVersion, weightVersion),
      policyVersionEnd: weightVersion,
    };
  }
}

export function sglangBody({ promptIds, sampling, stopIds }: TokenRequest): BodyWithIds {
  return new BodyWithIds("input_ids", promptIds, {
    sampling_params: {
      ...serverFilters(sampling),
      max_new_tokens: sampling.max_tokens,
      sampling_seed: sampling.seed,
      skip_special_tokens: false,
      no_stop_trim: true,
      ...(stopIds === undefined ? {} : { stop_token_ids: stopIds }),
    },
    return_logprob: true,
    logprob_start_len: -1,
    stream: false,
  });
}

export type SglangAnswer = Omit<TokenGeneration, "logprobsMode"> & {
  /** The version at the end; undefined when the server does not number its weights. */
  readonly weightVersion: number | undefined;
};

/** @throws ENGINE_FAILED on an abort, ENGINE_REPLY_INVALID when the answer has not this shape. */
export function sglangAnswer(reply: unknown): SglangAnswer {
  const root = objectAt(Array.isArray(reply) ? reply[0] : reply, "answer");
  const meta = objectAt(root["meta_info"], "meta_info");
  const finish = meta["finish_reason"];
  const tokens = arrayAt(meta["output_token_logprobs"] ?? [], "output_token_logprobs").map(
    (entry, at) => arrayAt(entry, `output_token_logprobs.${at}`),
  );
  const beside = idsAt(
    tokens.map((entry) => entry[1]),
    "output_token_logprobs ids",
  );
  const tokenIds =
    idsAt(root["output_ids"], "output_ids") ?? (tokens.length > 0 ? beside : undefined);
  if (tokenIds === undefined)
    throw new EngineError("ENGINE_REPLY_INVALID", "output_ids is missing");
  const promptIds = promptIdsAt(root["prompt_token_ids"], "prompt_token_ids");
  const promptTokens = countAt(meta["prompt_tokens"]);
  const completionTokens = countAt(meta["completion_tokens"]);
  return {
    tokenIds,
    logProbs: tokens.map(
      ([logProb], at) => (beside?.[at] === tokenIds[at] ? logProbOf(logProb) : Number.NaN), // G2
    ),
    finishReason: finishReasonOf(
      typeof finish === "object" && finish !== null ? (finish as Json)["type"] : finish,
    ),
    ...(promptIds === undefined ? {} : { promptIds }),
    ...(promptTokens === undefined ? {} : { promptTokens }),
    ...(completionTokens === undefined ? {} : { completionTokens }),
    ...reportedVersions(meta["weight_versions"], tokenIds.length),
    weightVersion: versionOf(meta["weight_version"]),
  };
}
