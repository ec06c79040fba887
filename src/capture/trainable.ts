/**
 * The positive proof that a row may be trained. It trusts no mask that is absent: it looks at the tokens again.
 *
 * T1. A reward that is a finite number, no mask, metrics that count at least one call, no error and no reason.
 * T2. At least one item with token arrays; every such item has all three, of fitting lengths, with ids in
 *     [0, 2^31) and log probabilities in (-1000, 1e-6].
 * T3. Contiguous: each prompt begins with the prompt and generation of the item before it, or, in the delta form, holds
 *     only what came since; a form that is unknown is not trainable.
 */
import { outputForm, outputItems, type TokenItem, tokenItem } from "./token-items.js";

/** True only when everything a trainer relies on holds for this row. */
export function isTrainable(row: unknown): boolean {
  if (!isObject(row)) return false;
  const mask = row["mask_sample"];
  if (mask !== undefined && mask !== false) return false;
  if (typeof row["reward"] !== "number" || !Number.isFinite(row["reward"])) return false;
  const generated = generatedTokens(row["response"]);
  return generated !== undefined && isHealthy(row["_ng_token_capture"], generated);
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null;
}

function isHealthy(metrics: unknown, generated: number): boolean {
  if (!isObject(metrics)) return false;
  const calls = metrics["n_calls"];
  const delivered = metrics["generated_tokens_delivered"];
  const reasons = metrics["mask_reasons"];
  return (
    typeof calls === "number" &&
    Number.isInteger(calls) &&
    calls >= 1 &&
    metrics["error"] === undefined &&
    (metrics["capture_incomplete"] ?? false) === false &&
    (reasons === undefined || (Array.isArray(reasons) && reasons.length === 0)) &&
    (delivered === undefined || delivered === generated)
  );
}

/** Number of generated tokens of a sound, contiguous sequence; undefined when it is not one or has none. */
function generatedTokens(response: unknown): number | undefined {
  const form = outputForm(response);
  if (form === undefined) return undefined;
  let previous: TokenItem | undefined;
  let count = 0;
  for (const item of outputItems(response)) {
    const tokens = tokenItem(item);
    if (tokens === undefined) continue;
    if (tokens === null || !isSound(tokens)) return undefined;
    const isFirst = previous === undefined;
    // Nothing may have been appended since the item before; something must have come before the first.
    if (tokens.prompt.length === 0 && (isFirst || form === "full")) return undefined;
    if (previous !== undefined && form === "full" && !continues(tokens.prompt, previous)) {
      return undefined;
    }
    previous = tokens;
    count += tokens.generation.length;
  }
  return count > 0 ? count : undefined;
}

function isSound({ prompt, generation, logProbs }: TokenItem): boolean {
  return (
    generation.length > 0 &&
    generation.length === logProbs.length &&
    allValues(prompt, isTokenId) &&
    allValues(generation, isTokenId) &&
    allValues(logProbs, isLogProb)
  );
}

function isTokenId(value: unknown): boolean {
  return Number.isInteger(value) && (value as number) >= 0 && (value as number) < 2 ** 31;
}

function isLogProb(value: unknown): boolean {
  return typeof value === "number" && value > -1000 && value <= 1e-6;
}

function allValues(values: ArrayLike<unknown>, test: (value: unknown) => boolean): boolean {
  for (let index = 0; index < values.length; index += 1) {
    if (!test(values[index])) return false;
  }
  return true;
}

function continues(prompt: ArrayLike<unknown>, previous: TokenItem): boolean {
  const { prompt: before, generation } = previous;
  if (prompt.length < before.length + generation.length) return false;
  for (let index = 0; index < before.length; index += 1) {
    if (prompt[index] !== before[index]) return false;
  }
  for (let index = 0; index < generation.length; index += 1) {
    if (prompt[before.length + index] !== generation[index]) return false;
  }
  return true;
}
