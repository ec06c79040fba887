/** vLLM with its own template and parsers: `/v1/chat/completions` with `return_token_ids`. */
import type { Conversation, LogprobsMode } from "../../../capture/index.js";
import { chatBody } from "./chat-wire.js";
import { EngineError, engineErrorCode } from "./engine-error.js";
import {
  CHAT_PATH,
  type ChatServer,
  PROBE_CHAT,
  ServerChatEngine,
  type ServerChatRequest,
} from "./server-chat-engine.js";
import {
  type EngineStart,
  misconfigured,
  type OpenedEngine,
  PROBE_SAMPLING,
  servedModel,
} from "./start.js";
import type { EngineClient } from "./upstream/engine-client.js";
import { countAt, objectAt } from "./upstream/json.js";
import { HOT, modeOf, RAW_LOGPROBS_WARNING, topLogProb, vllmAnswer } from "./vllm-wire.js";

type TemplateVariables = Readonly<Record<string, unknown>>;

interface VllmChatSettings {
  readonly model: string;
  readonly logprobsMode: LogprobsMode;
  readonly templateVariables: TemplateVariables;
  readonly contextTokens: number | undefined;
}

function vllmChatServer(settings: VllmChatSettings): ChatServer {
  const { model, logprobsMode, templateVariables, contextTokens } = settings;
  return {
    capabilities: {
      tokenIds: true,
      prefixSupply: false,
      reportsPolicyVersion: false,
      ...(contextTokens === undefined ? {} : { contextTokens }),
    },
    body: (request) => vllmChatBody(model, templateVariables, request),
    tokensOf: (reply) => ({ ...vllmAnswer(reply), logprobsMode }),
    countTokens: (client, conversation) => countTokens(client, conversation, settings),
    // The server has these endpoints with VLLM_SERVER_DEV_MODE=1.
    pause: { path: "/pause?mode=keep", body: {} },
    resume: { path: "/resume", body: {} },
  };
}

async function countTokens(
  client: EngineClient,
  conversation: Conversation,
  { model, templateVariables }: VllmChatSettings,
): Promise<number> {
  const body = {
    model,
    ...chatBody({ conversation, stopSequences: [], toolChoice: "auto" as const }),
    add_generation_prompt: true,
    chat_template_kwargs: templateVariables,
  };
  const { signal } = new AbortController();
  const reply = objectAt(await client.post("/tokenize", body, { signal }), "answer");
  const count = countAt(reply["count"]);
  if (count === undefined) throw new EngineError("ENGINE_REPLY_INVALID", "/tokenize has no count");
  return count;
}

function vllmChatBody(
  model: string,
  templateVariables: TemplateVariables,
  request: ServerChatRequest,
): object {
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

/**
 * Tries the server, with a tool, and opens an engine on it.
 * @throws ENGINE_MISCONFIGURED naming the flag that is missing.
 */
export async function openVllmChat(
  start: Omit<EngineStart, "probeIds">,
  templateVariables: TemplateVariables,
): Promise<OpenedEngine<ServerChatEngine>> {
  const { client, signal } = start;
  const { name: model, contextTokens } = await servedModel(client, start.model, signal);
  const probe = async (temperature: number) => {
    const sampling = { ...PROBE_SAMPLING, temperature };
    const probed = {
      conversation: PROBE_CHAT,
      sampling,
      stopSequences: [],
      toolChoice: "auto" as const,
    };
    const body = vllmChatBody(model, templateVariables, probed);
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
  const logprobsMode = modeOf(topLogProb(reply), topLogProb(await probe(HOT)));
  const server = vllmChatServer({ model, logprobsMode, templateVariables, contextTokens });
  return {
    engine: new ServerChatEngine(client, server),
    warnings: logprobsMode === "raw" ? [RAW_LOGPROBS_WARNING] : [],
  };
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
