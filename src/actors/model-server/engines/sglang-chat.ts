/**
 * SGLang with its own template and parsers: `/v1/chat/completions` with `return_prompt_token_ids` and
 * `return_meta_info`, which holds the generated ids beside their log probabilities. Never streamed: its streams have no
 * ids. Log probabilities and versions are those of `/generate`.
 */
import type { EngineCapabilities } from "./engine.js";
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
  SGLANG_PAUSE,
  SGLANG_RESUME,
  type SglangAnswer,
  SglangVersions,
  sglangAnswer,
  sglangLogprobsMode,
} from "./sglang-wire.js";
import { type EngineStart, misconfigured, type OpenedEngine, servedModel } from "./start.js";
import type { EngineClient } from "./upstream/engine-client.js";
import { arrayAt, countAt, objectAt } from "./upstream/json.js";

const NEEDED = "an SGLang with return_meta_info and return_prompt_token_ids on chats is needed";

function sglangChatBody(
  model: string,
  templateVariables: TemplateVariables,
  request: ServerChatRequest,
): object {
  return {
    ...serverChatBody(model, templateVariables, request),
    return_prompt_token_ids: true,
    return_meta_info: true,
  };
}

/** @throws ENGINE_FAILED on an abort, ENGINE_REPLY_INVALID when the answer has not this shape. */
export function sglangChatAnswer(reply: unknown): SglangAnswer {
  const root = objectAt(reply, "answer");
  const choice = objectAt(arrayAt(root["choices"], "choices")[0], "choices.0");
  const meta = objectAt(choice["meta_info"], "choices.0.meta_info");
  return sglangAnswer({
    output_ids: choice["token_ids"],
    prompt_token_ids: choice["prompt_token_ids"],
    meta_info: { ...meta, finish_reason: meta["finish_reason"] ?? choice["finish_reason"] },
  });
}

/** Tries the server, with a tool, and opens an engine on it. @throws ENGINE_MISCONFIGURED naming what is missing. */
export async function openSglangChat(
  start: Omit<EngineStart, "probeIds">,
  templateVariables: TemplateVariables,
): Promise<OpenedEngine<ServerChatEngine>> {
  const { client, signal } = start;
  const { name: model, contextTokens } = await servedModel(client, start.model, signal);
  const body = sglangChatBody(model, templateVariables, PROBE_REQUEST);
  const answer = checkedAnswer(await client.post(CHAT_PATH, body, { signal }));
  const capabilities: EngineCapabilities = {
    tokenIds: true,
    prefixSupply: false,
    reportsPolicyVersion: answer.weightVersion !== undefined,
    ...(contextTokens === undefined ? {} : { contextTokens }),
  };
  const versions = new SglangVersions(answer.weightVersion);
  const server = sglangChatServer(model, templateVariables, capabilities, versions);
  const hasParser = await hasToolParser(client, signal);
  return {
    engine: new ServerChatEngine(client, server),
    warnings: hasParser
      ? []
      : ["the server parses no tool calls: start SGLang with --tool-call-parser <parser>"],
  };
}

function sglangChatServer(
  model: string,
  templateVariables: TemplateVariables,
  capabilities: EngineCapabilities,
  versions: SglangVersions,
): ChatServer {
  const body = (request: ServerChatRequest) => {
    return sglangChatBody(model, templateVariables, request);
  };
  return {
    capabilities,
    body,
    tokensOf: (reply, { sampling }) => ({
      ...versions.settle(sglangChatAnswer(reply)),
      logprobsMode: sglangLogprobsMode(sampling),
    }),
    // No endpoint renders without generating; the call that follows finds this prompt in the prefix cache.
    countTokens: async (client, conversation) => {
      const asked = { ...PROBE_REQUEST, conversation };
      const { signal } = new AbortController();
      const reply = objectAt(await client.post(CHAT_PATH, body(asked), { signal }), "answer");
      const count = countAt(objectAt(reply["usage"], "usage")["prompt_tokens"]);
      if (count === undefined)
        throw new EngineError("ENGINE_REPLY_INVALID", "usage has no prompt_tokens");
      return count;
    },
    pause: SGLANG_PAUSE,
    resume: SGLANG_RESUME,
  };
}

function checkedAnswer(reply: unknown): SglangAnswer {
  let answer: SglangAnswer;
  try {
    answer = sglangChatAnswer(reply);
  } catch (error) {
    throw misconfigured(`${CHAT_PATH} sends no token ids (${String(error)}): ${NEEDED}`, error);
  }
  if (answer.promptIds === undefined)
    throw misconfigured(`${CHAT_PATH} sends no prompt_token_ids: ${NEEDED}`);
  if (answer.logProbs.length !== answer.tokenIds.length)
    throw misconfigured(`${CHAT_PATH} sends no log probabilities for logprobs: true`);
  return answer;
}

/** False only where the server says so. */
async function hasToolParser(client: EngineClient, signal: AbortSignal): Promise<boolean> {
  try {
    const info = objectAt(await client.get("/get_server_info", signal), "/get_server_info");
    return info["tool_call_parser"] !== null;
  } catch (error) {
    const code = engineErrorCode(error);
    if (code === "ENGINE_REFUSED" || code === "ENGINE_REPLY_INVALID") return true;
    throw error;
  }
}
