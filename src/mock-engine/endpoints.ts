/** Which path is which operation, and how each server's request is read. */
import { qwen3ChatTemplate, type Vocabulary } from "../embedded-policy/index.js";
import type { MockAnswer, MockLogProbs, MockSampling, MockWeights } from "./answer.js";
import type { MockChat } from "./chat.js";
import type { MockEngineOptions } from "./options.js";
import {
  llamaCompletion,
  sglangChat,
  sglangGenerate,
  vllmChat,
  vllmCompletion,
  vllmGenerate,
} from "./shapes.js";

type Json = Readonly<Record<string, unknown>>;

/** A refusal with an HTTP status. */
export class MockRefusal extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** One generation: its prompt, how it samples, and the answer's shape. */
export interface MockGeneration {
  readonly promptIds: readonly number[];
  readonly sampling: MockSampling;
  readonly logProbs: MockLogProbs;
  readonly shaped: (answer: MockAnswer, weights: readonly MockWeights[]) => Json;
}

export interface EndpointContext {
  readonly options: MockEngineOptions;
  readonly vocabulary: Vocabulary;
  readonly chat: MockChat;
  readonly model: string;
  readonly maxModelLen: number;
}

type ReadGeneration = (body: Json, context: EndpointContext) => Promise<MockGeneration>;

const DEFAULT_MAX_TOKENS = 16;

function sampling(from: Json, maxTokens: unknown): MockSampling {
  const number = (value: unknown, fallback: number) =>
    typeof value === "number" ? value : fallback;
  return {
    temperature: number(from["temperature"], 1),
    top_p: number(from["top_p"], 1),
    top_k: number(from["top_k"], 0),
    max_tokens: number(maxTokens, DEFAULT_MAX_TOKENS),
    seed: number(from["seed"] ?? from["sampling_seed"], 0),
  };
}

function idsOf(value: unknown, field: string): number[] {
  if (!Array.isArray(value) || !value.every((id) => Number.isInteger(id)))
    throw new MockRefusal(400, `${field} must be a list of token ids`);
  return value as number[];
}

function vllmMode({ options }: EndpointContext): MockLogProbs {
  return options.logprobsMode === "processed_logprobs" ? "processed" : "raw";
}

const readCompletion: ReadGeneration = async (body, context) => ({
  promptIds: idsOf(body["prompt"], "prompt"),
  sampling: sampling(body, body["max_tokens"]),
  logProbs: vllmMode(context),
  shaped: (answer) => vllmCompletion(answer, context.model),
});

const readVllmGenerate: ReadGeneration = async (body, context) => {
  const parameters = (body["sampling_params"] ?? {}) as Json;
  return {
    promptIds: idsOf(body["token_ids"], "token_ids"),
    sampling: sampling(parameters, parameters["max_tokens"]),
    logProbs: vllmMode(context),
    shaped: vllmGenerate,
  };
};

const readChat: ReadGeneration = async (body, context) => {
  const hasTools = Array.isArray(body["tools"]) && body["tools"].length > 0;
  if (hasTools && context.options.autoToolChoice !== true)
    throw new MockRefusal(
      400,
      '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set',
    );
  const promptIds = await context.chat.promptIds(body);
  const left = context.maxModelLen - promptIds.length;
  return {
    promptIds,
    sampling: sampling(body, body["max_tokens"] ?? body["max_completion_tokens"] ?? left),
    logProbs: vllmMode(context),
    shaped: (answer) =>
      vllmChat(answer, context.chat.message(answer.tokenIds ?? []), context.model),
  };
};

const readSglangChat: ReadGeneration = async (body, context) => {
  const promptIds = await context.chat.promptIds(body);
  const left = context.maxModelLen - promptIds.length;
  return {
    promptIds,
    sampling: sampling(body, body["max_tokens"] ?? left),
    logProbs: "tempered",
    shaped: (answer, weights) => {
      const ids = answer.tokenIds ?? [];
      const message = context.chat.message(ids, context.options.autoToolChoice === true);
      return sglangChat(answer, weights, { body, message, model: context.model });
    },
  };
};

const readSglang: ReadGeneration = async (body) => {
  const parameters = (body["sampling_params"] ?? {}) as Json;
  return {
    promptIds: idsOf(body["input_ids"], "input_ids"),
    sampling: sampling(parameters, parameters["max_new_tokens"]),
    logProbs: "tempered",
    shaped: sglangGenerate,
  };
};

const readLlama: ReadGeneration = async (body, { vocabulary }) => {
  const bytesOf = (id: number) =>
    id < vocabulary.size ? Array.from(vocabulary.decodeBytes([id])) : [];
  const asProbability = body["post_sampling_probs"] === true;
  const asked = sampling(body, body["n_predict"]);
  // Where nothing shapes the distribution the two are one; the policy's own sums differ in their last bit.
  const isShaped = asked.temperature !== 1 || asked.top_p !== 1 || asked.top_k > 0;
  return {
    promptIds: idsOf(body["prompt"], "prompt"),
    sampling: asked,
    logProbs: asProbability || !isShaped ? "processed" : "raw",
    shaped: (answer) => llamaCompletion(answer, asProbability, bytesOf),
  };
};

const GENERATIONS: Readonly<
  Record<MockEngineOptions["shape"], Readonly<Record<string, ReadGeneration>>>
> = {
  vllm: {
    "/v1/completions": readCompletion,
    "/v1/chat/completions": readChat,
    "/inference/v1/generate": readVllmGenerate,
  },
  sglang: { "/generate": readSglang, "/v1/chat/completions": readSglangChat },
  llama_cpp: { "/completion": readLlama },
};

/** The generation that a POST asks for; undefined when the path is none. */
export async function readGeneration(
  path: string,
  body: Json,
  context: EndpointContext,
): Promise<MockGeneration | undefined> {
  const { shape, generateEndpoint = true } = context.options;
  if (path === "/inference/v1/generate" && !generateEndpoint) return undefined;
  const read = GENERATIONS[shape][path];
  if (read === undefined) return undefined;
  if (body["stream"] === true) throw new MockRefusal(400, "this engine does not stream");
  const generation = await read(body, context);
  const { promptIds, sampling: asked } = generation;
  const total = promptIds.length + Math.max(1, asked.max_tokens);
  if (total > context.maxModelLen)
    throw new MockRefusal(
      400,
      `This model's maximum context length is ${context.maxModelLen} tokens. However, you requested ${asked.max_tokens} output tokens and your prompt contains ${promptIds.length}; reduce max_tokens or the prompt.`,
    );
  return generation;
}

/** Tokens that Qwen's authors added without making them special: this server finds them in every text. */
const USER_DEFINED = /(<\/?(?:think|tool_call|tool_response)>)/;

async function llamaTokens(body: Json, vocabulary: Vocabulary): Promise<number[]> {
  const text = String(body["content"] ?? "");
  if (body["parse_special"] !== false) return Array.from(await vocabulary.encode(text));
  const parts = text.split(USER_DEFINED).map((part) => {
    return USER_DEFINED.test(part) ? vocabulary.encode(part) : vocabulary.encodeOrdinary(part);
  });
  return (await Promise.all(parts)).flatMap((ids) => Array.from(ids));
}

/** The answer to anything that generates nothing; undefined when there is none. */
export async function otherAnswer(
  method: string,
  path: string,
  body: Json,
  { options, vocabulary, chat, model, maxModelLen }: EndpointContext,
): Promise<unknown> {
  if (method === "GET" && path === "/health") return {};
  if (method === "GET" && path === "/v1/models")
    return {
      object: "list",
      data: [
        options.shape === "llama_cpp"
          ? { id: model, object: "model", meta: { n_vocab: vocabulary.size } }
          : { id: model, object: "model", max_model_len: maxModelLen },
      ],
    };
  if (method === "GET" && path === "/props" && options.shape === "llama_cpp")
    return {
      default_generation_settings: { n_ctx: maxModelLen },
      chat_template: options.chatTemplate ?? qwen3ChatTemplate(),
      bos_token: "",
      eos_token: "<|im_end|>",
    };
  if (method === "GET" && path === "/get_server_info" && options.shape === "sglang")
    return { tool_call_parser: options.autoToolChoice === true ? "qwen25" : null };
  if (method === "POST" && path === "/apply-template" && options.shape === "llama_cpp")
    return { prompt: chat.rendered(body) };
  if (method !== "POST" || path !== "/tokenize") return undefined;
  if (options.shape === "llama_cpp") return { tokens: await llamaTokens(body, vocabulary) };
  const tokens =
    body["messages"] === undefined
      ? Array.from(await vocabulary.encode(String(body["prompt"] ?? "")))
      : await chat.promptIds(body);
  return { count: tokens.length, max_model_len: maxModelLen, tokens };
}
