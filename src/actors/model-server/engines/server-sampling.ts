import type { TokenRequest } from "./engine.js";

/** The filters in the words that vLLM and SGLang share; to both -1 means that `top_k` filters nothing. */
export function serverFilters({
  temperature,
  top_p,
  top_k,
  min_p,
}: TokenRequest["sampling"]): Readonly<Record<string, unknown>> {
  return { temperature, top_p, top_k: top_k === 0 ? -1 : top_k, min_p };
}
