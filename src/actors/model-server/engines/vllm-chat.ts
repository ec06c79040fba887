/** vLLM with its own template and parsers: `/v1/chat/completions` with `return_token_ids`. */
import type { Conversation, LogprobsMode } from "../../../capture/index.js";
import { chatBody } from "./chat-wire.js";
import { EngineError, engineErrorCode } from "./engine-error.js";
import {
  CHAT_PATH,
  type ChatServer,
  PROBE_REQUEST,
  ServerChatEngine,
  type ServerChatRequest,
  serverChatBody,
  type TemplateVariables,
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
    ...chatBody({ ...PROBE_REQUEST, conversation }),
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
  return {
    ...serverChatBody(model, templateVariables, request),
    top_logprobs: 1,
    return_tokens_as_token_ids: true,
    skip_special_tokens: false,
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
    const probed = { ...PROBE_REQUEST, sampling };
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
