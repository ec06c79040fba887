/** Requests and answers of vLLM's two token endpoints. */
import type { LogprobsMode } from "../../../capture/index.js";
import type { TokenGeneration, TokenRequest } from "./engine.js";
import { EngineError } from "./engine-error.js";
import { reportedVersions } from "./reported-versions.js";
import { serverFilters } from "./server-sampling.js";
import { BodyWithIds } from "./upstream/id-lists.js";
import {
  arrayAt,
  countAt,
  idsAt,
  logProbOf,
  objectAt,
  promptIdsAt,
  textAt,
} from "./upstream/json.js";

export type VllmApi = "completions" | "generate";

export const VLLM_PATHS: Readonly<Record<VllmApi, string>> = {
  completions: "/v1/completions",
  generate: "/inference/v1/generate",
};

type Json = Readonly<Record<string, unknown>>;

/** What the answer of either endpoint says. */
export type VllmAnswer = Omit<TokenGeneration, "logprobsMode">;

function samplingParameters({ sampling, stopIds }: TokenRequest): Json {
  return {
    ...serverFilters(sampling),
    max_tokens: sampling.max_tokens,
    seed: sampling.seed,
    logprobs: 1,
    skip_special_tokens: false,
    ...(stopIds === undefined ? {} : { stop_token_ids: stopIds }),
  };
}

/** JSON. */
export function vllmBody(api: VllmApi, model: string, request: TokenRequest): BodyWithIds {
  const { promptIds } = request;
  const parameters = samplingParameters(request);
  if (api === "generate")
    return new BodyWithIds("token_ids", promptIds, {
      model,
      sampling_params: parameters,
      stream: false,
      return_token_ids: true,
    });
  return new BodyWithIds("prompt", promptIds, {
    model,
    ...parameters,
    n: 1,
    stream: false,
    add_special_tokens: false,
    return_token_ids: true,
  });
}

/** @throws ENGINE_FAILED on an abort, ENGINE_REPLY_INVALID when the answer has not the endpoint's shape. */
export function vllmAnswer(reply: unknown): VllmAnswer {
  const root = objectAt(reply, "answer");
  const choice = objectAt(arrayAt(root["choices"], "choices")[0], "choices.0");
  const usage = root["usage"] == null ? {} : objectAt(root["usage"], "usage");
  const tokenIds = idsAt(choice["token_ids"], "choices.0.token_ids");
  if (tokenIds === undefined)
    throw new EngineError("ENGINE_REPLY_INVALID", "choices.0.token_ids is missing");
  const promptIds = promptIdsAt(
    choice["prompt_token_ids"] ?? root["prompt_token_ids"],
    "prompt_token_ids",
  );
  const promptTokens = countAt(usage["prompt_tokens"]);
  const completionTokens = countAt(usage["completion_tokens"]);
  return {
    tokenIds,
    logProbs: logProbsOf(choice["logprobs"], tokenIds),
    finishReason: finishReasonOf(choice["finish_reason"]),
    ...(promptIds === undefined ? {} : { promptIds }),
    ...(promptTokens === undefined ? {} : { promptTokens }),
    ...(completionTokens === undefined ? {} : { completionTokens }),
    ...reportedVersions(choice["weight_versions"], tokenIds.length),
  };
}

/** @throws ENGINE_FAILED for anything but a natural end or the token limit: an abort is never a normal end. */
export function finishReasonOf(reason: unknown): "stop" | "length" {
  if (reason === "stop" || reason === "tool_calls") return "stop";
  if (reason === "length") return "length";
  throw new EngineError(
    "ENGINE_FAILED",
    `the engine ended the call with ${JSON.stringify(reason)}`,
  );
}

/** Both shapes: parallel lists, or one object for each token. An id that contradicts `token_ids` spoils its place. */
function logProbsOf(logprobs: unknown, tokenIds: readonly number[]): number[] {
  if (logprobs === undefined || logprobs === null) return [];
  const shape = objectAt(logprobs, "choices.0.logprobs");
  const lists = shape["token_logprobs"];
  if (lists !== undefined && lists !== null) return arrayAt(lists, "token_logprobs").map(logProbOf);
  return arrayAt(shape["content"] ?? [], "logprobs.content").map((entry, at) => {
    const token = objectAt(entry, `logprobs.content.${at}`);
    const id = token["token_id"] ?? idOfText(token["token"]);
    return id === undefined || id === tokenIds[at] ? logProbOf(token["logprob"]) : Number.NaN;
  });
}

/** The id in `token_id:123`, which `return_tokens_as_token_ids` writes. */
function idOfText(token: unknown): number | undefined {
  const found = /^token_id:(\d+)$/.exec(textAt(token) ?? "")?.[1];
  return found === undefined ? undefined : Number(found);
}

/** A temperature far enough from 1 to move every log probability that has it. */
export const HOT = 8;
/** Nats; more than the noise of kernels. */
const DIFFERENT_NATS = 0.05;

export const RAW_LOGPROBS_WARNING =
  "the engine's log probabilities are raw: they are the policy's own only at temperature 1 without top_p, top_k and min_p; start vLLM with --logprobs-mode processed_logprobs";

/** The mode that two answers to one prompt show: a raw log probability does not move with the temperature. */
export function modeOf(cold: number | undefined, hot: number | undefined): LogprobsMode {
  const moved = cold !== undefined && hot !== undefined && Math.abs(cold - hot) > DIFFERENT_NATS;
  return moved ? "processed" : "raw";
}

/** The highest log probability at the first place, whatever was sampled. */
export function topLogProb(reply: unknown): number | undefined {
  const choice = objectAt(arrayAt(objectAt(reply, "answer")["choices"], "choices")[0], "choices.0");
  const logprobs = choice["logprobs"] as Json | null | undefined;
  const first =
    (logprobs?.["top_logprobs"] as unknown[] | undefined)?.[0] ??
    ((logprobs?.["content"] as Json[] | undefined)?.[0]?.["top_logprobs"] as unknown);
  if (typeof first !== "object" || first === null) return undefined;
  const values = Array.isArray(first)
    ? first.map((entry: Json) => entry["logprob"])
    : Object.values(first);
  const numbers = values.filter((value) => typeof value === "number");
  return numbers.length === 0 ? undefined : Math.max(...numbers);
}
