/**
 * SGLang by token ids: `/generate`.
 *
 * G1. Its log probabilities have the temperature and not top_p, top_k or min_p: with a filter they are not those of
 *     the distribution that was sampled, and the record says so.
 * G2. Ids come twice, as `output_ids` and beside each log probability; they must agree.
 */
import type { EngineCapabilities, TokenEngine, TokenGeneration, TokenRequest } from "./engine.js";
import { EngineError } from "./engine-error.js";
import {
  type EngineStart,
  isUnfiltered,
  misconfigured,
  type OpenedEngine,
  PROBE_SAMPLING,
  servedModel,
} from "./start.js";
import type { EngineClient } from "./upstream/engine-client.js";
import { BodyWithIds } from "./upstream/id-lists.js";
import { arrayAt, countAt, idsAt, logProbOf, objectAt, promptIdsAt } from "./upstream/json.js";
import { finishReasonOf, versionOf } from "./vllm-wire.js";

type Json = Readonly<Record<string, unknown>>;

interface SglangSettings {
  readonly client: EngineClient;
  readonly contextTokens: number | undefined;
  /** Of the start check. */
  readonly reportedVersion: number | undefined;
}

export class SglangEngine implements TokenEngine {
  readonly capabilities: EngineCapabilities;
  readonly #settings: SglangSettings;
  /** The newest answer's weight version; undefined when the server does not number its weights. */
  #reported: number | undefined;

  constructor(settings: SglangSettings) {
    this.#settings = settings;
    this.#reported = settings.reportedVersion;
    const { contextTokens } = settings;
    this.capabilities = {
      tokenIds: true,
      prefixSupply: true,
      reportsPolicyVersion: true,
      ...(contextTokens === undefined ? {} : { contextTokens }),
    };
  }

  async generate(request: TokenRequest): Promise<TokenGeneration> {
    const before = this.#reported;
    const reply = await this.#settings.client.post("/generate", sglangBody(request), request);
    const { weightVersion, ...answer } = sglangAnswer(reply);
    this.#reported = weightVersion;
    const logprobsMode = isUnfiltered(request.sampling) ? "processed" : "tempered"; // G1
    if (weightVersion === undefined) return { ...answer, logprobsMode };
    return {
      ...answer,
      logprobsMode,
      // What is reported is the version at the end; the call began with the one that was reported before.
      policyVersionStart: Math.min(before ?? weightVersion, weightVersion),
      policyVersionEnd: weightVersion,
    };
  }

  pause(): Promise<boolean> {
    return this.#settings.client.postToAll("/pause_generation", { mode: "in_place" });
  }

  resume(): Promise<boolean> {
    return this.#settings.client.postToAll("/continue_generation", {});
  }

  close(): Promise<void> {
    return this.#settings.client.close();
  }
}

export function sglangBody({ promptIds, sampling, stopIds }: TokenRequest): BodyWithIds {
  const { temperature, top_p, top_k, min_p, max_tokens, seed } = sampling;
  return new BodyWithIds("input_ids", promptIds, {
    sampling_params: {
      temperature,
      top_p,
      top_k: top_k === 0 ? -1 : top_k,
      min_p,
      max_new_tokens: max_tokens,
      sampling_seed: seed,
      skip_special_tokens: false,
      no_stop_trim: true,
      ...(stopIds === undefined ? {} : { stop_token_ids: stopIds }),
    },
    return_logprob: true,
    logprob_start_len: -1,
    stream: false,
  });
}

type SglangAnswer = Omit<
  TokenGeneration,
  "logprobsMode" | "policyVersionStart" | "policyVersionEnd"
> & { readonly weightVersion: number | undefined };

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
    weightVersion: versionOf(meta["weight_version"]),
  };
}

/**
 * Tries the server and opens an engine on it.
 * @throws ENGINE_MISCONFIGURED naming what is missing.
 */
export async function openSglang(start: EngineStart): Promise<OpenedEngine<SglangEngine>> {
  const { client, signal, probeIds } = start;
  const { contextTokens } = await servedModel(client, start.model, signal);
  const request = { promptIds: probeIds, sampling: PROBE_SAMPLING, signal };
  let answer: SglangAnswer;
  try {
    answer = sglangAnswer(await client.post("/generate", sglangBody(request), { signal }));
  } catch (error) {
    if (!(error instanceof EngineError) || error.code === "ENGINE_UNAVAILABLE") throw error;
    throw misconfigured(`/generate sends no token ids: ${error.message}`, error);
  }
  if (answer.tokenIds.length !== answer.logProbs.length)
    throw misconfigured("/generate sends no log probabilities for return_logprob: true");
  const engine = new SglangEngine({
    client,
    contextTokens,
    reportedVersion: answer.weightVersion,
  });
  return { engine, warnings: [] };
}
