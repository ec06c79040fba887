/** Which sampling parameters reach the engine: overrides over the request, the request over the defaults. */
import { createHash } from "node:crypto";
import type { SamplingParameters } from "../../capture/index.js";
import type { SamplingOverrides } from "./options.js";
import { RequestError } from "./request-error.js";

/** Every parameter decided; what the entry records. */
export type PinnedSampling = Required<SamplingParameters>;

const DEFAULT_MAX_TOKENS = 4096;

/** Contract: pure; the same on captured and uncaptured calls, so capture never changes an answer. */
export function pinSampling(
  requested: SamplingParameters,
  overrides: SamplingOverrides,
  seed: number,
): PinnedSampling {
  return {
    temperature: overrides.temperature ?? requested.temperature ?? 1,
    top_p: overrides.top_p ?? requested.top_p ?? 1,
    top_k: overrides.top_k ?? requested.top_k ?? 0,
    min_p: overrides.min_p ?? requested.min_p ?? 0,
    max_tokens: overrides.max_tokens ?? requested.max_tokens ?? DEFAULT_MAX_TOKENS,
    seed: requested.seed ?? seed,
  };
}

/**
 * The same with `max_tokens` cut to what the engine's context leaves: harnesses ask for more than fits.
 * @throws RequestError 400 when the prompt alone fills the context. Claude Code compacts on this wording.
 */
export function clampToContext(
  sampling: PinnedSampling,
  promptTokens: number | undefined,
  contextTokens: number | undefined,
): PinnedSampling {
  if (promptTokens === undefined || contextTokens === undefined) return sampling;
  if (promptTokens >= contextTokens)
    throw new RequestError(
      400,
      `prompt is too long: ${promptTokens} tokens > ${contextTokens - 1} maximum`,
    );
  return { ...sampling, max_tokens: Math.min(sampling.max_tokens, contextTokens - promptTokens) };
}

/** The engine seed of a call. uint32. */
export function callSeed(runSeed: number, rolloutId: string | undefined, callId: string): number {
  const hash = createHash("sha256").update(JSON.stringify([runSeed, rolloutId ?? null, callId]));
  return hash.digest().readUInt32LE(0);
}
