/**
 * Turns a chain into a Responses payload whose items hold one contiguous token sequence.
 *
 * P1. Each call has exactly one item with token arrays. `full`: its `prompt_token_ids` is every token before its
 *     generation. `delta`: only those since the item before it; the first has them all.
 * P2. Text, tool calls and reasoning are kept as recorded; arrays that a record left on another item are removed.
 * P3. As views, the arrays are the records' own memory: a full form of n calls holds no more than its records do.
 */
import type { TrajectoryBuild } from "./build.js";
import { generatedTokens } from "./metrics.js";
import type { CallPurpose } from "./purpose.js";
import type { OutputItem, TokenEntry } from "./records.js";
import { sameTokens } from "./token-views.js";

export type OutputForm = "full" | "delta";

export interface ProjectionOptions {
  /** Default `full`: every item repeats the running prompt, quadratic in calls. */
  readonly outputForm?: OutputForm;
  /** Default `plain`: arrays of numbers, ready for JSON. `views`: typed arrays over the records' memory. */
  readonly arrays?: "plain" | "views";
}

/** The rebuilt rollout, as a trainer reads it. */
export interface RebuiltResponse {
  id: string;
  model: string;
  object: "response";
  /** Absent: `full`. */
  output_form?: "delta";
  output: OutputItem[];
  /** Tokens before the first generation, and generated tokens of the whole chain. */
  usage: { input_tokens: number; output_tokens: number };
}

/** The Responses payload of the shown chain, null when there is none. */
export function rebuildResponse(
  build: TrajectoryBuild,
  options: ProjectionOptions = {},
): RebuiltResponse | null {
  if (build.chain.length === 0) return null;
  return projectChain(`proj-${build.rolloutId}`, build.chain, build.purposes, options);
}

/** Payloads of the other trajectories of an `all` build, in its order. */
export function rebuildOthers(
  build: TrajectoryBuild,
  options: ProjectionOptions = {},
): RebuiltResponse[] {
  return build.others.map(({ chain }, index) => {
    const id = `proj-${build.rolloutId}-${String(index + 1)}`;
    return projectChain(id, chain, build.purposes, options);
  });
}

/** Contract: a chain, root first, each call continuing the one before it. */
function projectChain(
  id: string,
  chain: readonly TokenEntry[],
  purposes: ReadonlyMap<string, CallPurpose>,
  { outputForm = "full", arrays = "plain" }: ProjectionOptions,
): RebuiltResponse {
  const [first] = chain;
  const numbers = arrays === "views" ? asView : plainNumbers;
  const prompts = new PlainPrompts();
  const promptNumbers = arrays === "views" ? asView : (ids: Int32Array) => prompts.of(ids);
  const output = chain.flatMap((entry, index) => {
    const before = chain[index - 1];
    const known = outputForm === "full" || before === undefined ? 0 : cumulativeLength(before);
    const prompt = promptNumbers(entry.prompt_token_ids.subarray(known));
    return projectCall(entry, {
      prompt_token_ids: prompt,
      generation_token_ids: numbers(entry.generation_token_ids),
      generation_log_probs: numbers(entry.generation_log_probs),
      ...callFields(entry, purposes),
    });
  });
  return {
    id,
    model: first?.model ?? "",
    object: "response",
    ...(outputForm === "delta" ? { output_form: "delta" } : {}),
    output,
    usage: {
      input_tokens: first?.prompt_token_ids.length ?? 0,
      output_tokens: generatedTokens(chain),
    },
  };
}

function cumulativeLength(entry: TokenEntry): number {
  return entry.prompt_token_ids.length + entry.generation_token_ids.length;
}

function projectCall(entry: TokenEntry, fields: Record<string, unknown>): OutputItem[] {
  const carrier = carrierIndex(entry);
  if (carrier < 0) return [{ type: "message", ...fields }];
  return entry.output_items.map((item, index) => {
    const content = withoutTokens(item);
    return index === carrier ? { ...content, ...fields } : content;
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

function callFields(entry: TokenEntry, purposes: ReadonlyMap<string, CallPurpose>) {
  return {
    ...given("routed_experts", entry.routed_experts),
    ...given("policy_version_start", entry.policy_version_start),
    ...given("policy_version_end", entry.policy_version_end),
    ...given("policy_version_spans", entry.policy_version_spans),
    ...given("logprobs_mode", entry.logprobs_mode),
    ...given("sampling", entry.sampling),
    ...given("_ng_model_call", modelCall(entry, purposes)),
  };
}

function asView<T>(values: T): T {
  return values;
}

/** `Array.from` goes through the iterator and takes many times as long. */
function plainNumbers(values: Int32Array | Float64Array): number[] {
  const numbers = new Array<number>(values.length);
  for (let index = 0; index < values.length; index += 1) numbers[index] = values[index] as number;
  return numbers;
}

/** The prompts of a chain as arrays of their own. One that goes on from the one before it is copied up to there. */
class PlainPrompts {
  #ids: Int32Array = new Int32Array();
  #numbers: readonly number[] = [];

  of(ids: Int32Array): number[] {
    const known = sameTokens(this.#ids, ids.subarray(0, this.#ids.length)) ? this.#numbers : [];
    // `concat` copies at memory speed, many times faster than a loop over a typed array.
    const numbers = known.concat(plainNumbers(ids.subarray(known.length)));
    this.#ids = ids;
    this.#numbers = numbers;
    return numbers;
  }
}

/** Names the call behind an item, for records whose calls were named when they were made. */
function modelCall(entry: TokenEntry, purposes: ReadonlyMap<string, CallPurpose>): unknown {
  if (entry.parent_resolution === undefined) return undefined;
  return {
    model_call_id: entry.model_call_id,
    ...given("finish_reason", entry.finish_reason),
    ...given("purpose", purposes.get(entry.model_call_id)),
  };
}

function given(name: string, value: unknown): Record<string, unknown> {
  return value === undefined ? {} : { [name]: value };
}
