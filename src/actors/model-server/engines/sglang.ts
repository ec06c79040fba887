/** SGLang by token ids: `/generate`. Prompts are ours; see `sglang-wire.ts` for what its answers hold. */
import type { EngineCapabilities, TokenEngine, TokenGeneration, TokenRequest } from "./engine.js";
import { EngineError } from "./engine-error.js";
import {
  SGLANG_PAUSE,
  SGLANG_RESUME,
  type SglangAnswer,
  SglangVersions,
  sglangAnswer,
  sglangBody,
  sglangLogprobsMode,
} from "./sglang-wire.js";
import {
  type EngineStart,
  misconfigured,
  type OpenedEngine,
  PROBE_SAMPLING,
  servedModel,
} from "./start.js";
import type { EngineClient } from "./upstream/engine-client.js";

const PATH = "/generate";

interface SglangSettings {
  readonly client: EngineClient;
  readonly contextTokens: number | undefined;
  /** Of the start check. */
  readonly reportedVersion: number | undefined;
}

export class SglangEngine implements TokenEngine {
  readonly capabilities: EngineCapabilities;
  readonly #client: EngineClient;
  readonly #versions: SglangVersions;

  constructor({ client, contextTokens, reportedVersion }: SglangSettings) {
    this.#client = client;
    this.#versions = new SglangVersions(reportedVersion);
    this.capabilities = {
      tokenIds: true,
      prefixSupply: true,
      reportsPolicyVersion: reportedVersion !== undefined,
      ...(contextTokens === undefined ? {} : { contextTokens }),
    };
  }

  async generate(request: TokenRequest): Promise<TokenGeneration> {
    const reply = await this.#client.post(PATH, sglangBody(request), request);
    return {
      ...this.#versions.settle(sglangAnswer(reply)),
      logprobsMode: sglangLogprobsMode(request.sampling),
    };
  }

  pause(): Promise<boolean> {
    return this.#client.postToAll(SGLANG_PAUSE.path, SGLANG_PAUSE.body);
  }

  resume(): Promise<boolean> {
    return this.#client.postToAll(SGLANG_RESUME.path, SGLANG_RESUME.body);
  }

  close(): Promise<void> {
    return this.#client.close();
  }
}

/**
 * Tries the server and opens an engine on it.
 * @throws ENGINE_MISCONFIGURED naming what is missing.
 */
export async function openSglang(start: EngineStart): Promise<OpenedEngine<SglangEngine>> {
  const { client, signal, probeIds } = start;
  const { contextTokens } = await servedModel(client, start.model, signal);
  const request = { promptIds: probeIds, sampling: PROBE_SAMPLING, signal };
  let answer: SglangAnswer;
  try {
    answer = sglangAnswer(await client.post(PATH, sglangBody(request), { signal }));
  } catch (error) {
    if (!(error instanceof EngineError) || error.code === "ENGINE_UNAVAILABLE") throw error;
    throw misconfigured(`/generate sends no token ids: ${error.message}`, error);
  }
  if (answer.tokenIds.length !== answer.logProbs.length)
    throw misconfigured("/generate sends no log probabilities for return_logprob: true");
  const engine = new SglangEngine({
    client,
    contextTokens,
    reportedVersion: answer.weightVersion,
  });
  return { engine, warnings: [] };
}
