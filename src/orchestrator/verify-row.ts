/**
 * What one line of rollouts.jsonl must hold, judged from the line alone: nothing here trusts the code that wrote it.
 *
 * Y1. Contiguous: the prompt of each generated item starts with everything before it, and adds something. In the delta
 *     form it holds only what it adds.
 * Y2. As many log probabilities as generated ids; ids are whole and not negative; log probabilities in (-1000, 1e-6].
 * Y3. An unmasked row has metrics, calls and tokens, and its metrics count the tokens that it holds and give no reason
 *     to mask.
 */
import { isMapping } from "./config/merge.js";

/** One generated item of a row. */
export interface GeneratedItem {
  /** int32[P]. */
  readonly promptIds: Int32Array;
  /** int32[G]. */
  readonly generationIds: Int32Array;
  /** float64[G], natural log. */
  readonly logProbs: readonly number[];
  readonly logprobsMode: string | undefined;
  readonly sampling: Readonly<Record<string, unknown>>;
}

export interface CheckedRow {
  readonly rolloutId: string;
  readonly masked: boolean;
  readonly hasMetrics: boolean;
  readonly items: readonly GeneratedItem[];
  readonly faults: readonly string[];
}

/** Log probabilities lie in (-1000, 1e-6]. Source: the limits of a token record; servers write -9999 for "none". */
const MIN_LOG_PROB = -1000;
const MAX_LOG_PROB = 1e-6;

export function checkRow(row: unknown): CheckedRow {
  const fields = isMapping(row) ? row : {};
  const rolloutId = fields["_ng_rollout_id"];
  const metrics = fields["_ng_token_capture"];
  const masked = fields["mask_sample"] === true;
  const faults: string[] = [];
  if (typeof rolloutId !== "string") faults.push("has no _ng_rollout_id");
  const items = readItems(outputOf(fields), isDelta(fields["response"]), faults);
  checkContiguity(items, faults);
  if (!masked && isMapping(metrics)) checkMetrics(metrics, items, faults);
  return {
    rolloutId: typeof rolloutId === "string" ? rolloutId : "?",
    masked,
    hasMetrics: isMapping(metrics),
    items,
    faults,
  };
}

function outputOf(row: Record<string, unknown>): readonly unknown[] {
  const response = row["response"];
  const output = isMapping(response) ? response["output"] : undefined;
  return Array.isArray(output) ? output : [];
}

const TOKEN_FIELDS = ["prompt_token_ids", "generation_token_ids", "generation_log_probs"] as const;

/** Y2. An item that holds one of the arrays holds all; a broken item is a fault and is left out. */
function readItems(output: readonly unknown[], delta: boolean, faults: string[]): GeneratedItem[] {
  let before: readonly number[] = [];
  return output.flatMap((item, index) => {
    if (!isMapping(item) || TOKEN_FIELDS.every((field) => item[field] === undefined)) return [];
    const prompt = item["prompt_token_ids"];
    const generation = item["generation_token_ids"];
    const logProbs = item["generation_log_probs"];
    const problem =
      idsProblem(prompt, "prompt_token_ids") ??
      idsProblem(generation, "generation_token_ids") ??
      logProbsProblem(logProbs, generation);
    if (problem !== undefined) {
      faults.push(`output[${index}]: ${problem}`);
      return [];
    }
    const promptIds = [...before, ...(prompt as number[])];
    if (delta) before = [...promptIds, ...(generation as number[])];
    const sampling = item["sampling"];
    const mode = item["logprobs_mode"];
    return [
      {
        promptIds: Int32Array.from(promptIds),
        generationIds: Int32Array.from(generation as number[]),
        logProbs: logProbs as number[],
        logprobsMode: typeof mode === "string" ? mode : undefined,
        sampling: isMapping(sampling) ? sampling : {},
      },
    ];
  });
}

function isDelta(response: unknown): boolean {
  return isMapping(response) && response["output_form"] === "delta";
}

function idsProblem(ids: unknown, name: string): string | undefined {
  if (!Array.isArray(ids)) return `${name} is no list`;
  const bad = ids.find((id) => !Number.isInteger(id) || id < 0 || id >= 2 ** 31);
  return bad === undefined
    ? undefined
    : `${name} holds ${JSON.stringify(bad)}, which is no token id`;
}

function logProbsProblem(logProbs: unknown, generation: unknown): string | undefined {
  if (!Array.isArray(logProbs)) return "generation_log_probs is no list";
  const length = Array.isArray(generation) ? generation.length : 0;
  if (logProbs.length !== length)
    return `${logProbs.length} log probabilities for ${length} generated ids`;
  const bad = logProbs.find(
    (value) => typeof value !== "number" || !(value > MIN_LOG_PROB && value <= MAX_LOG_PROB),
  );
  return bad === undefined
    ? undefined
    : `generation_log_probs holds ${JSON.stringify(bad)}, which is no log probability`;
}

/** Y1. */
function checkContiguity(items: readonly GeneratedItem[], faults: string[]): void {
  let previous: GeneratedItem | undefined;
  for (const [index, item] of items.entries()) {
    if (previous !== undefined && !extendsItem(previous, item.promptIds))
      faults.push(`generated item ${index} does not continue the tokens before it`);
    previous = item;
  }
}

function extendsItem(previous: GeneratedItem, promptIds: Int32Array): boolean {
  const { promptIds: before, generationIds } = previous;
  if (promptIds.length <= before.length + generationIds.length) return false;
  return (
    before.every((id, index) => promptIds[index] === id) &&
    generationIds.every((id, index) => promptIds[before.length + index] === id)
  );
}

/** Y3. */
function checkMetrics(
  metrics: Record<string, unknown>,
  items: readonly GeneratedItem[],
  faults: string[],
): void {
  const tokens = items.reduce((sum, item) => sum + item.generationIds.length, 0);
  const calls = metrics["n_calls"];
  if (typeof calls !== "number" || calls < 1) faults.push("is unmasked without a recorded call");
  if (tokens === 0) faults.push("is unmasked without a generated token");
  const reasons = metrics["mask_reasons"];
  const hasReason = Array.isArray(reasons) && reasons.length > 0;
  if (hasReason || metrics["error"] !== undefined || metrics["capture_incomplete"] === true)
    faults.push("is unmasked although its metrics give a reason to mask");
  const counted = metrics["generated_tokens_delivered"];
  if (typeof counted === "number" && counted !== tokens)
    faults.push(`holds ${tokens} generated tokens, but its metrics count ${counted}`);
}
