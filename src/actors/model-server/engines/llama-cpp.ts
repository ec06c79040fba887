/**
 * llama.cpp's server by token ids: `/completion`.
 *
 * C1. Its raw log probability is the policy's own only where nothing shapes the distribution. Elsewhere it is asked for
 *     the probability after sampling, so the record always holds the one that was sampled from.
 * C2. A prompt that the server cut to its context is no prompt of ours: the call failed.
 */
import type { EngineCapabilities, TokenEngine, TokenGeneration, TokenRequest } from "./engine.js";
import { EngineError } from "./engine-error.js";
import {
  type EngineStart,
  isUnfiltered,
  misconfigured,
  type OpenedEngine,
  PROBE_SAMPLING,
} from "./start.js";
import type { EngineClient } from "./upstream/engine-client.js";
import { BodyWithIds } from "./upstream/id-lists.js";
import { arrayAt, countAt, idsAt, logProbOf, objectAt } from "./upstream/json.js";

type Json = Readonly<Record<string, unknown>>;

/** Told what the server says that an id spells. */
export type LearnToken = (id: number, bytes: Uint8Array) => void;

interface LlamaCppSettings {
  readonly client: EngineClient;
  readonly learn: LearnToken | undefined;
  readonly contextTokens: number | undefined;
}

export class LlamaCppEngine implements TokenEngine {
  readonly capabilities: EngineCapabilities;
  readonly #settings: LlamaCppSettings;

  constructor(settings: LlamaCppSettings) {
    this.#settings = settings;
    const { contextTokens } = settings;
    this.capabilities = {
      tokenIds: true,
      prefixSupply: true,
      reportsPolicyVersion: false,
      ...(contextTokens === undefined ? {} : { contextTokens }),
    };
  }

  async generate(request: TokenRequest): Promise<TokenGeneration> {
    const body = llamaCppBody(request);
    const reply = await this.#settings.client.post("/completion", body, request);
    if (this.#settings.learn !== undefined) learnTokens(reply, this.#settings.learn);
    return { ...llamaCppAnswer(reply), logprobsMode: "processed" }; // C1
  }

  close(): Promise<void> {
    return this.#settings.client.close();
  }
}

export function llamaCppBody({ promptIds, sampling }: TokenRequest): BodyWithIds {
  const { temperature, top_p, top_k, min_p, max_tokens, seed } = sampling;
  return new BodyWithIds("prompt", promptIds, {
    temperature,
    top_p,
    top_k,
    min_p,
    n_predict: max_tokens,
    seed,
    // The order of the other engines; none of the server's further samplers.
    samplers: ["temperature", "top_k", "top_p", "min_p"],
    repeat_penalty: 1,
    cache_prompt: true,
    return_tokens: true,
    n_probs: 1,
    post_sampling_probs: !(temperature === 1 && isUnfiltered(sampling)), // C1
    stream: false,
  });
}

type LlamaCppAnswer = Omit<
  TokenGeneration,
  "logprobsMode" | "policyVersionStart" | "policyVersionEnd"
>;

/** @throws ENGINE_FAILED when the prompt was cut, ENGINE_REPLY_INVALID when the answer has not this shape. */
export function llamaCppAnswer(reply: unknown): LlamaCppAnswer {
  const root = objectAt(reply, "answer");
  if (root["truncated"] === true)
    throw new EngineError("ENGINE_FAILED", "the server cut the prompt to its context"); // C2
  const tokenIds = idsAt(root["tokens"], "tokens");
  if (tokenIds === undefined) throw new EngineError("ENGINE_REPLY_INVALID", "tokens is missing");
  const promptTokens = countAt(root["tokens_evaluated"]);
  const completionTokens = countAt(root["tokens_predicted"]);
  return {
    tokenIds,
    logProbs: arrayAt(root["completion_probabilities"] ?? [], "completion_probabilities").map(
      (entry, at) => {
        const token = objectAt(entry, `completion_probabilities.${at}`);
        return token["id"] === tokenIds[at] ? logProbAt(token) : Number.NaN;
      },
    ),
    finishReason: stopReason(root["stop_type"]),
    ...(promptTokens === undefined ? {} : { promptTokens }),
    ...(completionTokens === undefined ? {} : { completionTokens }),
  };
}

/** Only what is plainly told: bytes beside an id. */
function learnTokens(reply: unknown, learn: LearnToken): void {
  const tokens = (reply as Json | null)?.["completion_probabilities"];
  if (!Array.isArray(tokens)) return;
  for (const { id, bytes } of tokens as { id?: unknown; bytes?: unknown }[]) {
    const isText = Array.isArray(bytes) && bytes.every((byte) => byte >= 0 && byte <= 255);
    if (Number.isInteger(id) && isText) learn(id as number, Uint8Array.from(bytes as number[]));
  }
}

function logProbAt(token: Json): number {
  const { logprob, prob } = token;
  return logprob === undefined ? Math.log(logProbOf(prob)) : logProbOf(logprob);
}

function stopReason(type: unknown): "stop" | "length" {
  if (type === "eos" || type === "word") return "stop";
  if (type === "limit") return "length";
  throw new EngineError("ENGINE_FAILED", `the engine ended the call with ${JSON.stringify(type)}`);
}

/**
 * Tries the server and opens an engine on it.
 * @throws ENGINE_MISCONFIGURED naming what is missing.
 */
export async function openLlamaCpp(
  start: EngineStart,
  learn?: LearnToken,
): Promise<OpenedEngine<LlamaCppEngine>> {
  const { client, signal, probeIds } = start;
  const request = { promptIds: probeIds, sampling: PROBE_SAMPLING, signal };
  let answer: LlamaCppAnswer;
  try {
    answer = llamaCppAnswer(await client.post("/completion", llamaCppBody(request), { signal }));
  } catch (error) {
    if (!(error instanceof EngineError) || error.code === "ENGINE_UNAVAILABLE") throw error;
    throw misconfigured(
      `/completion sends no token ids: ${error.message}; a llama-server with return_tokens is needed`,
      error,
    );
  }
  if (answer.tokenIds.length !== answer.logProbs.length)
    throw misconfigured("/completion sends no log probabilities for n_probs: 1");
  const engine = new LlamaCppEngine({ client, learn, contextTokens: await contextOf(start) });
  return { engine, warnings: [] };
}

/** Context of one slot: `--ctx-size` divided by `--parallel`. */
async function contextOf({ client, signal }: EngineStart): Promise<number | undefined> {
  const props = objectAt(await client.get("/props", signal), "/props");
  const settings = props["default_generation_settings"];
  return typeof settings === "object" && settings !== null
    ? countAt((settings as Json)["n_ctx"])
    : undefined;
}
