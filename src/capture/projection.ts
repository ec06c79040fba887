/**
 * Turns a chain into a Responses payload whose items hold one contiguous token sequence.
 *
 * P1. Each call has exactly one item with token arrays; its `prompt_token_ids` is every token before its generation.
 * P2. Text, tool calls and reasoning are kept as recorded; arrays that a record left on another item are removed.
 */
import type { OutputItem, TokenEntry } from "./records.js";

/** The rebuilt rollout, as a trainer reads it. */
export interface RebuiltResponse {
  id: string;
  model: string;
  object: "response";
  output: OutputItem[];
  /** Tokens before the first generation, and generated tokens of the whole chain. */
  usage: { input_tokens: number; output_tokens: number };
}

/** Contract: a chain, root first. Arrays are plain numbers: `int[P]`, `int[G]`, `float[G]`. */
export function projectChain(rolloutId: string, chain: readonly TokenEntry[]): RebuiltResponse {
  const first = chain[0];
  return {
    id: `proj-${rolloutId}`,
    model: first?.model ?? "",
    object: "response",
    output: chain.flatMap(projectCall),
    usage: {
      input_tokens: first?.prompt_token_ids.length ?? 0,
      output_tokens: generatedTokens(chain),
    },
  };
}

export function generatedTokens(entries: readonly TokenEntry[]): number {
  return entries.reduce((sum, entry) => sum + entry.generation_token_ids.length, 0);
}

function projectCall(entry: TokenEntry): OutputItem[] {
  const carrier = carrierIndex(entry);
  if (carrier < 0) return [{ type: "message", ...tokenFields(entry) }];
  return entry.output_items.map((item, index) => {
    const content = withoutTokens(item);
    return index === carrier ? { ...content, ...tokenFields(entry) } : content;
  });
}

/** The recorded carrier; else the item that holds arrays inline; else the last item; -1 when there is no item. */
function carrierIndex({ output_items: items, token_item_index: recorded }: TokenEntry): number {
  if (recorded !== null && recorded >= 0 && recorded < items.length) return recorded;
  const inline = items.findIndex((item) => item["generation_token_ids"] !== undefined);
  return inline >= 0 ? inline : items.length - 1;
}

function withoutTokens(item: OutputItem): OutputItem {
  const copy: { type: string; [field: string]: unknown } = { ...item };
  delete copy["prompt_token_ids"];
  delete copy["generation_token_ids"];
  delete copy["generation_log_probs"];
  return copy;
}

function tokenFields(entry: TokenEntry): Record<string, unknown> {
  return {
    prompt_token_ids: plainNumbers(entry.prompt_token_ids),
    generation_token_ids: plainNumbers(entry.generation_token_ids),
    generation_log_probs: plainNumbers(entry.generation_log_probs),
    ...given("routed_experts", entry.routed_experts),
    ...given("policy_version_start", entry.policy_version_start),
    ...given("policy_version_end", entry.policy_version_end),
    ...given("logprobs_mode", entry.logprobs_mode),
    ...given("sampling", entry.sampling),
    ...given("_ng_model_call", modelCall(entry)),
  };
}

/** `Array.from` goes through the iterator and takes many times as long. */
function plainNumbers(values: Int32Array | Float64Array): number[] {
  const numbers = new Array<number>(values.length);
  for (let index = 0; index < values.length; index += 1) numbers[index] = values[index] as number;
  return numbers;
}

/** Names the call behind an item, for records whose calls were named when they were made. */
function modelCall(entry: TokenEntry): unknown {
  if (entry.parent_resolution === undefined) return undefined;
  return {
    model_call_id: entry.model_call_id,
    ...given("finish_reason", entry.finish_reason),
    ...given("purpose", entry.purpose),
  };
}

function given(name: string, value: unknown): Record<string, unknown> {
  return value === undefined ? {} : { [name]: value };
}
