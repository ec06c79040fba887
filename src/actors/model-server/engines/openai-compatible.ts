/**
 * Any Chat Completions endpoint, for evaluation only: it tells no token ids, so nothing of it can be captured, and
 * nothing here makes it look as if it could.
 */
import type { Conversation } from "../../../capture/index.js";
import { chatAnswer, chatBody } from "./chat-wire.js";
import type { ChatEngine, ChatGeneration, ChatRequest, EnginePrompt } from "./engine.js";
import { EngineError } from "./engine-error.js";
import type { EngineClient } from "./upstream/engine-client.js";
import { countAt, objectAt } from "./upstream/json.js";

export class OpenaiCompatibleEngine implements ChatEngine {
  readonly capabilities = {
    tokenIds: false,
    prefixSupply: false,
    reportsPolicyVersion: false,
    forcesToolCalls: true,
  } as const;
  readonly vocabularySize = 0;
  readonly #client: EngineClient;
  readonly #model: string;

  constructor(client: EngineClient, model: string) {
    this.#client = client;
    this.#model = model;
  }

  prompt(): Promise<EnginePrompt> {
    return Promise.resolve({ ids: null });
  }

  /** Sends what every such endpoint takes; top_k, min_p and seed are no part of it. */
  async generate(request: ChatRequest): Promise<ChatGeneration> {
    const { temperature, top_p, max_tokens } = request.sampling;
    const chat = chatBody(request);
    const body = { model: this.#model, ...chat, temperature, top_p, max_tokens, stream: false };
    const reply = await this.#client.post("/v1/chat/completions", body, request);
    const { root, turn, finishReason, stopSequence } = chatAnswer(reply, request.stopSequences);
    const usage = root["usage"] == null ? {} : objectAt(root["usage"], "usage");
    const promptTokens = countAt(usage["prompt_tokens"]);
    const completionTokens = countAt(usage["completion_tokens"]);
    return {
      turn,
      stopSequence,
      finishReason,
      tokenIds: [],
      logProbs: [],
      logprobsMode: "raw",
      ...(promptTokens === undefined ? {} : { promptTokens }),
      ...(completionTokens === undefined ? {} : { completionTokens }),
    };
  }

  countTokens(_conversation: Conversation): Promise<number> {
    return Promise.reject(
      new EngineError("ENGINE_CANNOT", "an openai_compatible engine cannot count tokens"),
    );
  }

  close(): Promise<void> {
    return this.#client.close();
  }
}
