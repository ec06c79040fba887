/**
 * vLLM with its own template and parsers: `/v1/chat/completions` with `return_token_ids`.
 *
 * The simple mode. The server renders the whole history anew for every call, so a call continues its parent only where
 * that happens to give the same ids; everywhere else a new segment begins.
 *
 * H1. The prompt that is recorded is the one that the server reports, never one that we render.
 */
import type { Conversation, LogprobsMode } from "../../../capture/index.js";
import { chatAnswer, chatBody } from "./chat-wire.js";
import type {
  ChatEngine,
  ChatGeneration,
  ChatRequest,
  EngineCapabilities,
  EnginePrompt,
} from "./engine.js";
import { EngineError, engineErrorCode } from "./engine-error.js";
import {
  type EngineStart,
  misconfigured,
  type OpenedEngine,
  PROBE_SAMPLING,
  PROBE_TOOL,
  servedModel,
} from "./start.js";
import type { EngineClient } from "./upstream/engine-client.js";
import { countAt, objectAt } from "./upstream/json.js";
import { HOT, modeOf, RAW_LOGPROBS_WARNING, topLogProb, vllmAnswer } from "./vllm-wire.js";

const CHAT_PATH = "/v1/chat/completions";

interface VllmChatSettings {
  readonly client: EngineClient;
  readonly model: string;
  readonly logprobsMode: LogprobsMode;
  readonly templateVariables: Readonly<Record<string, unknown>>;
  readonly contextTokens: number | undefined;
}

/** No tokenizer is known here: ids are bounded by what an int32 holds. */
const ANY_VOCABULARY = 2 ** 31;

export class VllmChatEngine implements ChatEngine {
  readonly capabilities: EngineCapabilities;
  readonly vocabularySize = ANY_VOCABULARY;
  readonly #settings: VllmChatSettings;

  constructor(settings: VllmChatSettings) {
    this.#settings = settings;
    const { contextTokens } = settings;
    this.capabilities = {
      tokenIds: true,
      prefixSupply: false,
      reportsPolicyVersion: false,
      ...(contextTokens === undefined ? {} : { contextTokens }),
    };
  }

  prompt(): Promise<EnginePrompt> {
    return Promise.resolve({ ids: null }); // H1
  }

  async generate(request: ChatRequest): Promise<ChatGeneration> {
    const { client, logprobsMode } = this.#settings;
    const reply = await this.#post(client, request);
    const { turn, stopSequence } = chatAnswer(reply, request.stopSequences);
    const { weightVersions: _none, ...answer } = vllmAnswer(reply);
    return { ...answer, turn, stopSequence, logprobsMode };
  }

  async countTokens(conversation: Conversation): Promise<number> {
    const { client, model, templateVariables } = this.#settings;
    const body = {
      model,
      ...chatBody({ conversation, stopSequences: [], toolChoice: "auto" }),
      add_generation_prompt: true,
      chat_template_kwargs: templateVariables,
    };
    const { signal } = new AbortController();
    const count = countAt(
      objectAt(await client.post("/tokenize", body, { signal }), "answer")["count"],
    );
    if (count === undefined)
      throw new EngineError("ENGINE_REPLY_INVALID", "/tokenize has no count");
    return count;
  }

  /** The server has these endpoints with VLLM_SERVER_DEV_MODE=1. */
  pause(): Promise<boolean> {
    return this.#settings.client.postToAll("/pause?mode=keep", {});
  }

  resume(): Promise<boolean> {
    return this.#settings.client.postToAll("/resume", {});
  }

  close(): Promise<void> {
    return this.#settings.client.close();
  }

  /**
   * The server refuses a `max_tokens` beyond its context, and only it knows the prompt's length. Without the field it
   * takes what the context leaves, which then is less than was asked for.
   */
  async #post(client: EngineClient, request: ChatRequest): Promise<unknown> {
    const body = vllmChatBody(this.#settings, request);
    try {
      return await client.post(CHAT_PATH, body, request);
    } catch (error) {
      const message = error instanceof Error ? error.message : "";
      if (engineErrorCode(error) !== "ENGINE_REFUSED" || !/max_tokens|context length/.test(message))
        throw error;
      return client.post(CHAT_PATH, { ...body, max_tokens: undefined }, request);
    }
  }
}

function vllmChatBody(
  { model, templateVariables }: Pick<VllmChatSettings, "model" | "templateVariables">,
  request: Pick<ChatRequest, "conversation" | "sampling" | "stopSequences" | "toolChoice">,
) {
  const { temperature, top_p, top_k, min_p, max_tokens, seed } = request.sampling;
  return {
    model,
    ...chatBody(request),
    temperature,
    top_p,
    top_k: top_k === 0 ? -1 : top_k,
    min_p,
    max_tokens,
    seed,
    n: 1,
    stream: false,
    logprobs: true,
    top_logprobs: 1,
    return_token_ids: true,
    return_tokens_as_token_ids: true,
    skip_special_tokens: false,
    chat_template_kwargs: templateVariables,
  };
}

const PROBE: Conversation = {
  model: "",
  system: "",
  tools: [PROBE_TOOL],
  messages: [{ role: "user", text: "hi" }],
};

/**
 * Tries the server, with a tool, and opens an engine on it.
 * @throws ENGINE_MISCONFIGURED naming the flag that is missing.
 */
export async function openVllmChat(
  start: Omit<EngineStart, "probeIds">,
  templateVariables: Readonly<Record<string, unknown>>,
): Promise<OpenedEngine<VllmChatEngine>> {
  const { client, signal } = start;
  const { name: model, contextTokens } = await servedModel(client, start.model, signal);
  const probe = async (temperature: number) => {
    const sampling = { ...PROBE_SAMPLING, temperature };
    const probed = {
      conversation: PROBE,
      sampling,
      stopSequences: [],
      toolChoice: "auto",
    } as const;
    const body = vllmChatBody({ model, templateVariables }, probed);
    try {
      return await client.post(CHAT_PATH, body, { signal });
    } catch (error) {
      if (engineErrorCode(error) !== "ENGINE_REFUSED") throw error;
      const message = error instanceof Error ? error.message : String(error);
      throw misconfigured(
        `${message}; start vLLM with --enable-auto-tool-choice --tool-call-parser <parser>`,
        error,
      );
    }
  };
  const reply = await probe(1);
  checkChatAnswer(reply);
  const mode = modeOf(topLogProb(reply), topLogProb(await probe(HOT)));
  const engine = new VllmChatEngine({
    client,
    model,
    logprobsMode: mode,
    templateVariables,
    contextTokens,
  });
  return { engine, warnings: mode === "raw" ? [RAW_LOGPROBS_WARNING] : [] };
}

function checkChatAnswer(reply: unknown): void {
  let answer: ReturnType<typeof vllmAnswer>;
  try {
    answer = vllmAnswer(reply);
  } catch (error) {
    throw misconfigured(
      `${CHAT_PATH} sends no token ids (${String(error)}): vLLM >= 0.10.2 has return_token_ids`,
    );
  }
  if (answer.promptIds === undefined)
    throw misconfigured(
      `${CHAT_PATH} sends no prompt_token_ids: vLLM >= 0.10.2 has return_token_ids`,
    );
  if (answer.logProbs.length !== answer.tokenIds.length)
    throw misconfigured(
      `${CHAT_PATH} sends no log probabilities: start vLLM without --max-logprobs 0`,
    );
}
