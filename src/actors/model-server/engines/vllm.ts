/**
 * vLLM by token ids: `/v1/completions`, or `/inference/v1/generate` where the server has it. Never streamed: a stream
 * has lost token ids of tool calls in several versions.
 *
 * E1. Which log probabilities the server sends is measured, not believed: it is a flag of the server.
 */
import type { LogprobsMode } from "../../../capture/index.js";
import type { EngineCapabilities, TokenEngine, TokenGeneration, TokenRequest } from "./engine.js";
import { engineErrorCode } from "./engine-error.js";
import {
  type EngineStart,
  misconfigured,
  type OpenedEngine,
  PROBE_SAMPLING,
  servedModel,
} from "./start.js";
import type { EngineClient } from "./upstream/engine-client.js";
import {
  HOT,
  modeOf,
  RAW_LOGPROBS_WARNING,
  topLogProb,
  VLLM_PATHS,
  type VllmApi,
  vllmAnswer,
  vllmBody,
} from "./vllm-wire.js";

interface VllmSettings {
  readonly client: EngineClient;
  readonly model: string;
  readonly api: VllmApi;
  readonly logprobsMode: LogprobsMode;
  readonly contextTokens: number | undefined;
}

export class VllmEngine implements TokenEngine {
  readonly capabilities: EngineCapabilities;
  readonly #settings: VllmSettings;

  constructor(settings: VllmSettings) {
    this.#settings = settings;
    const { api, contextTokens } = settings;
    this.capabilities = {
      tokenIds: true,
      prefixSupply: true,
      reportsPolicyVersion: api === "generate",
      ...(contextTokens === undefined ? {} : { contextTokens }),
    };
  }

  async generate(request: TokenRequest): Promise<TokenGeneration> {
    const { client, api, model, logprobsMode } = this.#settings;
    const reply = await client.post(VLLM_PATHS[api], vllmBody(api, model, request), request);
    return { ...vllmAnswer(reply), logprobsMode };
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
}

/**
 * Tries the server and opens an engine on it.
 * @param api `auto` takes `generate` where the server answers it in full.
 * @throws ENGINE_MISCONFIGURED naming the flag that is missing.
 */
export async function openVllm(
  start: EngineStart,
  api: VllmApi | "auto",
): Promise<OpenedEngine<VllmEngine>> {
  const { client, signal } = start;
  const { name: model, contextTokens } = await servedModel(client, start.model, signal);
  const chosen = api === "auto" ? await bestApi(start, model) : api;
  const [cold, hot] = [await probe(start, model, chosen), await probe(start, model, chosen, HOT)];
  checkAnswer(chosen, cold, start.probeIds.length);
  const mode = modeOf(topLogProb(cold), topLogProb(hot)); // E1
  const engine = new VllmEngine({
    client,
    model,
    api: chosen,
    logprobsMode: mode,
    contextTokens,
  });
  return { engine, warnings: mode === "raw" ? [RAW_LOGPROBS_WARNING] : [] };
}

async function probe(
  { client, probeIds, signal }: EngineStart,
  model: string,
  api: VllmApi,
  temperature = PROBE_SAMPLING.temperature,
): Promise<unknown> {
  const sampling = { ...PROBE_SAMPLING, temperature };
  const body = vllmBody(api, model, { promptIds: probeIds, sampling, signal });
  try {
    return await client.post(VLLM_PATHS[api], body, { signal });
  } catch (error) {
    if (engineErrorCode(error) !== "ENGINE_REFUSED") throw error;
    const message = error instanceof Error ? error.message : String(error);
    throw misconfigured(
      `${message}; token-id prompts need vLLM >= 0.10.2 without --skip-tokenizer-init, and log probabilities a --max-logprobs above 0`,
      error,
    );
  }
}

/** `generate` only when it tells as much as `completions` does. */
async function bestApi(start: EngineStart, model: string): Promise<VllmApi> {
  try {
    const { promptIds, completionTokens } = vllmAnswer(await probe(start, model, "generate"));
    return promptIds !== undefined && completionTokens !== undefined ? "generate" : "completions";
  } catch (error) {
    const code = engineErrorCode(error);
    if (code === "ENGINE_UNAVAILABLE" || code === "ENGINE_TIMEOUT") throw error;
    return "completions";
  }
}

function checkAnswer(api: VllmApi, reply: unknown, promptTokens: number): void {
  const missing = (what: string, flag: string) =>
    misconfigured(`${VLLM_PATHS[api]} sends no ${what}: ${flag}`);
  let answer: ReturnType<typeof vllmAnswer>;
  try {
    answer = vllmAnswer(reply);
  } catch (error) {
    throw missing(`token ids (${String(error)})`, "vLLM >= 0.10.2 has return_token_ids");
  }
  if (answer.logProbs.length !== answer.tokenIds.length)
    throw missing("log probabilities", "start vLLM without --max-logprobs 0");
  if (answer.promptIds !== undefined && answer.promptIds.length !== promptTokens)
    throw misconfigured(
      `${VLLM_PATHS[api]} made ${answer.promptIds.length} tokens of a prompt of ${promptTokens} ids`,
    );
}
