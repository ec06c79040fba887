/** What every engine's start check needs and answers. */
import type { ToolSpecification } from "../../../capture/index.js";
import type { PinnedSampling } from "../sampling-pin.js";
import { EngineError } from "./engine-error.js";
import type { EngineClient } from "./upstream/engine-client.js";
import { arrayAt, countAt, objectAt, textAt } from "./upstream/json.js";

export interface EngineStart {
  readonly client: EngineClient;
  /** The name that the server gives the model; undefined takes the first that it lists. */
  readonly model: string | undefined;
  /** int32[n]: a short prompt to try. */
  readonly probeIds: Int32Array;
  readonly signal: AbortSignal;
}

/** An engine that answered its start check, and what a user should know of it. */
export interface OpenedEngine<E> {
  readonly engine: E;
  readonly warnings: readonly string[];
}

/** How the start check samples: one token, nothing filtered. */
export const PROBE_SAMPLING: PinnedSampling = {
  temperature: 1,
  top_p: 1,
  top_k: 0,
  min_p: 0,
  max_tokens: 1,
  seed: 0,
};

/** A tool for the start check of servers that parse calls themselves. */
export const PROBE_TOOL: ToolSpecification = {
  name: "probe",
  description: "",
  parameters: { type: "object", properties: {} },
};

export interface ServedModel {
  readonly name: string;
  /** Tokens of prompt and answer together. */
  readonly contextTokens: number | undefined;
}

/** The model of an OpenAI-style `/v1/models`. @throws ENGINE_MISCONFIGURED when it is not listed. */
export async function servedModel(
  client: EngineClient,
  wanted: string | undefined,
  signal: AbortSignal,
): Promise<ServedModel> {
  const list = objectAt(await client.get("/v1/models", signal), "/v1/models");
  const models = arrayAt(list["data"], "/v1/models data").map((entry) =>
    objectAt(entry, "/v1/models data entry"),
  );
  const names = models.map((entry) => textAt(entry["id"]) ?? "?");
  const at = wanted === undefined ? 0 : names.indexOf(wanted);
  const [entry, name] = [models[at], names[at]];
  if (entry === undefined || name === undefined)
    throw misconfigured(
      `the server serves ${names.join(", ") || "no model"}, not ${wanted ?? "any"}; set engine.model or --served-model-name`,
    );
  return { name, contextTokens: countAt(entry["max_model_len"]) };
}

export function misconfigured(message: string, cause?: unknown): EngineError {
  return new EngineError("ENGINE_MISCONFIGURED", message, { cause });
}

/** True when nothing but the temperature shapes the distribution. */
export function isUnfiltered({ top_p, top_k, min_p }: PinnedSampling): boolean {
  return top_p === 1 && top_k === 0 && min_p === 0;
}
