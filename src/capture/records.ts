/**
 * The record of one model call.
 *
 * In memory token ids are `Int32Array` and log probabilities `Float64Array`; JSON shows plain arrays. Field names are
 * those of the ecosystem (snake_case), because records cross processes.
 *
 * C1. Every value is checked before it is converted to a typed array: a conversion would hide a fraction, an overflow
 *     or a NaN.
 * C2. A record newer than `SCHEMA_VERSION` is refused by name and never decoded.
 * C3. `created_at` is not part of the digest and decides nothing that is trained.
 */

/** Newest record format this build reads and the one it writes. A record without the field is version 1. */
export const SCHEMA_VERSION = 1;

/** What a call's prompt continues, decided before it was sent to the engine. */
export type ParentResolution = "ROOT" | "RESOLVED" | "UNRESOLVED";

/**
 * `processed`: log probability under the distribution that was sampled. `raw`: temperature 1, no filter. `tempered`:
 * with the temperature, before top_p, top_k and min_p.
 */
export type LogprobsMode = "raw" | "processed" | "tempered";

/** Sampling parameters as they reached the engine, after the pin. */
export interface SamplingParameters {
  readonly temperature?: number;
  readonly top_p?: number;
  readonly top_k?: number;
  readonly min_p?: number;
  readonly max_tokens?: number;
  /** uint32. */
  readonly seed?: number;
}

/** A stretch of the generated tokens that one version of the weights sampled. */
export interface PolicyVersionSpan {
  readonly version: number;
  /** Index of its first generated token. */
  readonly start: number;
  /** Index after its last one. */
  readonly end: number;
}

/** One Responses-style output item: `message`, `function_call`, `reasoning`. */
export interface OutputItem {
  readonly type: string;
  readonly id?: string;
  readonly [field: string]: unknown;
}

/** One model call: exact prompt ids, generated ids and log probabilities, and what is needed to chain it. */
export interface TokenEntry {
  readonly schema_version: number;
  readonly rollout_id: string;
  readonly model_call_id: string;
  readonly model: string;
  /** int32[P]: the whole prompt that the engine saw. */
  readonly prompt_token_ids: Int32Array;
  /** int32[G]: what the policy sampled, the end-of-turn token included when it was sampled. */
  readonly generation_token_ids: Int32Array;
  /** float64[G], natural log, one for each generated id. Source: the engine's reply; never recomputed. */
  readonly generation_log_probs: Float64Array;
  readonly routed_experts?: unknown;
  readonly output_items: readonly OutputItem[];
  /** Index in `output_items` of the one item that carries the arrays; null when none does. */
  readonly token_item_index: number | null;
  /** Seconds since the Unix epoch. */
  readonly created_at: number;
  readonly policy_version_start?: number;
  readonly policy_version_end?: number;
  /** Which version sampled which tokens, all of them in order; absent where the engine does not say. */
  readonly policy_version_spans?: readonly PolicyVersionSpan[];
  readonly finish_reason?: string;
  readonly sampling?: SamplingParameters;
  readonly logprobs_mode?: LogprobsMode;
  readonly parent_resolution?: ParentResolution;
  readonly parent_call_id?: string;
  readonly parent_resolution_reason?: string;
  /** P + G. */
  readonly cum_len?: number;
  /** sha256, hex, over everything but `created_at` and itself. Absent on records from elsewhere. */
  readonly digest?: string;
  /** What the call was made for: main, subagent, compaction, title, other. */
  readonly purpose?: string;
  /** Tools that the request offered to the policy. */
  readonly tools_offered?: number;
  /** Id of the message as the harness received it. */
  readonly served_message_id?: string;
  /** Tool-call ids as the harness received them, in order. */
  readonly served_tool_call_ids?: readonly string[];
  /** sha256, hex, of system, tools, model and history of the request, normalised. */
  readonly context_digest?: string;
  /** Number of history messages under `context_digest`. */
  readonly context_length?: number;
  /** Version of the normalisation behind `context_digest`. */
  readonly fingerprint_version?: number;
  /** The text of the turn as it was served; with `served_tool_calls` it is what a harness must echo. */
  readonly served_text?: string;
  readonly served_tool_calls?: readonly ServedToolCall[];
}

/** A tool call as it was served to the harness. */
export interface ServedToolCall {
  readonly id: string;
  readonly name: string;
  /** Parsed JSON arguments. */
  readonly arguments: unknown;
}
