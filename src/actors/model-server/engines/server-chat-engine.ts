/**
 * A server with its own template and parsers, spoken to by `/v1/chat/completions`: the simple mode.
 *
 * The server renders the whole history anew for every call, so a call continues its parent only where that happens to
 * give the same ids; everywhere else a new segment begins.
 *
 * H1. The prompt that is recorded is the one that the server reports, never one that we render.
 */
import type { Conversation } from "../../../capture/index.js";
import { chatAnswer, chatBody } from "./chat-wire.js";
import type {
  ChatEngine,
  ChatGeneration,
  ChatRequest,
  EngineCapabilities,
  EnginePrompt,
  TokenGeneration,
} from "./engine.js";
import { engineErrorCode } from "./engine-error.js";
import { serverFilters } from "./server-sampling.js";
import { PROBE_SAMPLING, PROBE_TOOL } from "./start.js";
import type { EngineClient } from "./upstream/engine-client.js";

export const CHAT_PATH = "/v1/chat/completions";

/** What a request asks of the server's own template, sampler and parsers. */
export type ServerChatRequest = Pick<
  ChatRequest,
  "conversation" | "sampling" | "stopSequences" | "toolChoice"
>;

/** Values that a server's chat template is given. */
export type TemplateVariables = Readonly<Record<string, unknown>>;

/** What vLLM and SGLang are asked alike; each is asked for ids in its own words besides. */
export function serverChatBody(
  model: string,
  templateVariables: TemplateVariables,
  request: ServerChatRequest,
): Readonly<Record<string, unknown>> {
  const { max_tokens, seed } = request.sampling;
  return {
    model,
    ...chatBody(request),
    ...serverFilters(request.sampling),
    max_tokens,
    seed,
    n: 1,
    stream: false,
    logprobs: true,
    return_token_ids: true,
    chat_template_kwargs: templateVariables,
  };
}

/** One server's form of it. */
export interface ChatServer {
  readonly capabilities: EngineCapabilities;
  body(request: ServerChatRequest): object;
  /** The tokens of an answer. @throws EngineError. */
  tokensOf(reply: unknown, request: ServerChatRequest): TokenGeneration;
  countTokens(client: EngineClient, conversation: Conversation): Promise<number>;
  /** Endpoints, where the server has them, that hold generation and let it go on. */
  readonly pause: { readonly path: string; readonly body: object };
  readonly resume: { readonly path: string; readonly body: object };
}

/** No tokenizer is known here: ids are bounded by what an int32 holds. */
const ANY_VOCABULARY = 2 ** 31;

export class ServerChatEngine implements ChatEngine {
  readonly capabilities: EngineCapabilities;
  readonly vocabularySize = ANY_VOCABULARY;
  readonly #client: EngineClient;
  readonly #server: ChatServer;

  constructor(client: EngineClient, server: ChatServer) {
    this.#client = client;
    this.#server = server;
    this.capabilities = server.capabilities;
  }

  prompt(): Promise<EnginePrompt> {
    return Promise.resolve({ ids: null }); // H1
  }

  async generate(request: ChatRequest): Promise<ChatGeneration> {
    const reply = await this.#post(request);
    const { turn, stopSequence } = chatAnswer(reply, request.stopSequences);
    return { ...this.#server.tokensOf(reply, request), turn, stopSequence };
  }

  countTokens(conversation: Conversation): Promise<number> {
    return this.#server.countTokens(this.#client, conversation);
  }

  pause(): Promise<boolean> {
    const { path, body } = this.#server.pause;
    return this.#client.postToAll(path, body);
  }

  resume(): Promise<boolean> {
    const { path, body } = this.#server.resume;
    return this.#client.postToAll(path, body);
  }

  close(): Promise<void> {
    return this.#client.close();
  }

  /**
   * The server refuses a `max_tokens` beyond its context, and only it knows the prompt's length. Without the field it
   * takes what the context leaves, which then is less than was asked for.
   */
  async #post(request: ChatRequest): Promise<unknown> {
    const body = this.#server.body(request);
    try {
      return await this.#client.post(CHAT_PATH, body, request);
    } catch (error) {
      const message = error instanceof Error ? error.message : "";
      if (engineErrorCode(error) !== "ENGINE_REFUSED" || !/max_tokens|context length/.test(message))
        throw error;
      return this.#client.post(CHAT_PATH, { ...body, max_tokens: undefined }, request);
    }
  }
}

/** For start checks: a request with a tool, so that a server without a parser for calls shows it. */
export const PROBE_REQUEST: ServerChatRequest = {
  conversation: {
    model: "",
    system: "",
    tools: [PROBE_TOOL],
    messages: [{ role: "user", text: "hi" }],
  },
  sampling: PROBE_SAMPLING,
  stopSequences: [],
  toolChoice: "auto",
};
