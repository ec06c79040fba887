/** Answers in the shapes of vLLM, SGLang and llama.cpp. */
import type { MockAnswer, MockWeights } from "./answer.js";

type Json = Readonly<Record<string, unknown>>;

const usage = ({ promptTokens, completionTokens }: MockAnswer) => ({
  prompt_tokens: promptTokens,
  completion_tokens: completionTokens,
  total_tokens: promptTokens + completionTokens,
});

const spelled = (id: number | undefined) => `token_id:${String(id)}`;

/** The first place has the highest one; elsewhere only the sampled token is listed. */
function topAt({ tokenIds, topLogProb }: MockAnswer, logProb: number | null, at: number) {
  return at === 0 && topLogProb !== undefined
    ? { id: -1, logprob: topLogProb }
    : { id: tokenIds?.[at] ?? -1, logprob: logProb };
}

export function vllmCompletion(answer: MockAnswer, model: string): Json {
  const { tokenIds, logProbs, promptIds, finishReason } = answer;
  return {
    id: "cmpl-mock",
    object: "text_completion",
    model,
    choices: [
      {
        index: 0,
        text: "",
        finish_reason: finishReason,
        stop_reason: null,
        prompt_token_ids: promptIds,
        ...(tokenIds === undefined ? {} : { token_ids: tokenIds }),
        logprobs:
          logProbs === undefined
            ? null
            : {
                tokens: logProbs.map((_, at) => spelled(tokenIds?.[at])),
                token_logprobs: logProbs,
                top_logprobs: logProbs.map((logProb, at) => {
                  const top = topAt(answer, logProb, at);
                  return { [spelled(top.id)]: top.logprob };
                }),
                text_offset: logProbs.map(() => 0),
              },
      },
    ],
    usage: usage(answer),
  };
}

/** `withIds`: the newer form of the log probabilities, with ids as numbers; else `token_id:NNN`. */
function contentLogProbs(answer: MockAnswer, withIds: boolean): Json | null {
  const { tokenIds, logProbs } = answer;
  if (logProbs === undefined) return null;
  const named = (id: number | undefined) => (withIds ? { token_id: id } : { token: spelled(id) });
  return {
    content: logProbs.map((logprob, at) => {
      const top = topAt(answer, logprob, at);
      const top_logprobs = [{ ...named(top.id), logprob: top.logprob }];
      return { ...named(tokenIds?.[at]), logprob, top_logprobs };
    }),
  };
}

export function vllmGenerate(answer: MockAnswer, weights: readonly MockWeights[]): Json {
  const { tokenIds, promptIds, finishReason } = answer;
  return {
    request_id: "mock",
    prompt_token_ids: promptIds,
    choices: [
      {
        index: 0,
        finish_reason: finishReason,
        ...(tokenIds === undefined ? {} : { token_ids: tokenIds }),
        logprobs: contentLogProbs(answer, true),
        ...(weights.length === 0
          ? {}
          : {
              weight_versions: weights.map(({ version, start }) => ({
                start,
                weight_version: String(version),
              })),
            }),
      },
    ],
    usage: usage(answer),
  };
}

export function vllmChat(answer: MockAnswer, message: Json, model: string): Json {
  const { tokenIds, promptIds, finishReason } = answer;
  const calls = message["tool_calls"] !== undefined;
  return {
    id: "chatcmpl-mock",
    object: "chat.completion",
    model,
    prompt_token_ids: promptIds,
    choices: [
      {
        index: 0,
        message,
        finish_reason: calls && finishReason === "stop" ? "tool_calls" : finishReason,
        ...(tokenIds === undefined ? {} : { token_ids: tokenIds }),
        logprobs: contentLogProbs(answer, false),
      },
    ],
    usage: usage(answer),
  };
}

export function sglangGenerate(answer: MockAnswer, weights: readonly MockWeights[]): Json {
  const { tokenIds, logProbs, finishReason, promptTokens, completionTokens } = answer;
  return {
    text: "",
    ...(tokenIds === undefined ? {} : { output_ids: tokenIds }),
    meta_info: {
      id: "mock",
      finish_reason: { type: finishReason },
      prompt_tokens: promptTokens,
      completion_tokens: completionTokens,
      cached_tokens: 0,
      weight_version: String(weights.at(-1)?.version ?? "default"),
      // Told only of calls that met an update.
      ...(weights.length < 2
        ? {}
        : {
            weight_versions: weights.map((span) => ({ ...span, version: String(span.version) })),
          }),
      ...(logProbs === undefined || tokenIds === undefined
        ? {}
        : { output_token_logprobs: logProbs.map((value, at) => [value, tokenIds[at], null]) }),
    },
  };
}

export function sglangChat(
  answer: MockAnswer,
  weights: readonly MockWeights[],
  { body, message, model }: { body: Json; message: Json; model: string },
): Json {
  const { tokenIds, promptIds, finishReason } = answer;
  const calls = message["tool_calls"] !== undefined;
  const meta = sglangGenerate(answer, weights)["meta_info"];
  return {
    id: "chatcmpl-mock",
    object: "chat.completion",
    model,
    choices: [
      {
        index: 0,
        message,
        finish_reason: calls && finishReason === "stop" ? "tool_calls" : finishReason,
        matched_stop: null,
        ...(body["return_prompt_token_ids"] === true ? { prompt_token_ids: promptIds } : {}),
        ...(body["return_token_ids"] === true && tokenIds !== undefined
          ? { token_ids: tokenIds }
          : {}),
        ...(body["return_meta_info"] === true ? { meta_info: meta } : {}),
      },
    ],
    usage: usage(answer),
  };
}

const STOP_TYPES = { stop: "eos", length: "limit", abort: "none" } as const;

/** `logProbs` are logarithms; with `asProbability` they are shown as the probabilities after sampling. */
export function llamaCompletion(
  answer: MockAnswer,
  asProbability: boolean,
  bytesOf: (id: number) => readonly number[],
): Json {
  const { tokenIds, logProbs, finishReason, promptTokens, completionTokens } = answer;
  const shown = (value: number | null) =>
    asProbability
      ? { prob: value === null ? null : Math.exp(value), top_probs: [] }
      : { logprob: value, top_logprobs: [] };
  return {
    content: "",
    stop: true,
    stop_type: STOP_TYPES[finishReason],
    truncated: false,
    ...(tokenIds === undefined ? {} : { tokens: tokenIds }),
    tokens_evaluated: promptTokens,
    tokens_predicted: completionTokens,
    ...(logProbs === undefined
      ? {}
      : {
          completion_probabilities: logProbs.map((value, at) => ({
            id: tokenIds?.[at],
            bytes: bytesOf(tokenIds?.[at] ?? 0),
            ...shown(value),
          })),
        }),
  };
}
