/**
 * From anything to a checked `TokenEntry`, and back to JSON. The arrays are checked by hand (a schema library takes
 * milliseconds for a long prompt), everything else by zod.
 *
 * C1 and C2 of `records.ts` are kept here.
 * C4. At most one output item carries the token arrays, and then it carries the record's own.
 */
import { z } from "zod";
import { CaptureError } from "./errors.js";
import {
  type OutputItem,
  type PolicyVersionSpan,
  SCHEMA_VERSION,
  type TokenEntry,
} from "./records.js";
import { checkLogProbs, checkTokenIds, type TokenLimits } from "./token-arrays.js";

const Id = z
  .string()
  .min(1)
  .refine((id) => !/\p{Surrogate}/u.test(id), "is not well-formed Unicode");
const Count = z.int().nonnegative();
const Sha256 = z.string().regex(/^[0-9a-f]{64}$/);

const ServedToolCall = z.object({ id: z.string(), name: z.string(), arguments: z.unknown() });

const Fields = z.object({
  schema_version: z.int().positive().default(SCHEMA_VERSION),
  rollout_id: Id,
  model_call_id: Id,
  model: z.string(),
  routed_experts: z.unknown().exactOptional(),
  output_items: z.array(z.looseObject({ type: z.string(), id: z.string().exactOptional() })),
  token_item_index: Count.nullable().default(null),
  created_at: z.number(),
  policy_version_start: z.number().exactOptional(),
  policy_version_end: z.number().exactOptional(),
  policy_version_spans: z
    .array(z.object({ version: z.number(), start: Count, end: Count }))
    .exactOptional(),
  finish_reason: z.string().exactOptional(),
  sampling: z
    .object({
      temperature: z.number().exactOptional(),
      top_p: z.number().exactOptional(),
      top_k: z.number().exactOptional(),
      min_p: z.number().exactOptional(),
      max_tokens: z.number().exactOptional(),
      seed: z.number().exactOptional(),
    })
    .exactOptional(),
  logprobs_mode: z.enum(["raw", "processed", "tempered"]).exactOptional(),
  parent_resolution: z.enum(["ROOT", "RESOLVED", "UNRESOLVED"]).exactOptional(),
  parent_call_id: z.string().exactOptional(),
  parent_resolution_reason: z.string().exactOptional(),
  cum_len: Count.exactOptional(),
  digest: Sha256.exactOptional(),
  purpose: z.string().exactOptional(),
  tools_offered: Count.exactOptional(),
  served_message_id: z.string().exactOptional(),
  served_tool_call_ids: z.array(z.string()).exactOptional(),
  context_digest: z.string().exactOptional(),
  context_length: Count.exactOptional(),
  fingerprint_version: z.int().exactOptional(),
  served_text: z.string().exactOptional(),
  served_tool_calls: z.array(ServedToolCall).exactOptional(),
});

const ARRAY_FIELDS = [
  "prompt_token_ids",
  "generation_token_ids",
  "generation_log_probs",
] as const satisfies readonly (keyof TokenEntry)[];

export interface ParseOptions extends TokenLimits {
  /** So many leading prompt ids are known to be good: they equal ids that were checked. Default 0. */
  readonly checkedPromptLength?: number;
}

/**
 * Checks a record, from its JSON form or its form in memory, and returns the form in memory. Unknown fields are left
 * out; null stands for an absent field. Arrays that have the right type already are kept, not copied.
 * @throws SCHEMA_TOO_NEW when the record was written by a newer version; nothing else of it is looked at.
 * @throws MULTIPLE_TOKEN_CARRIERS when two output items carry token arrays.
 * @throws RECORD_INVALID for everything else, naming the field, the value and what is allowed.
 */
export function parseTokenEntry(value: unknown, limits: ParseOptions = {}): TokenEntry {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new CaptureError("RECORD_INVALID", "A token record must be an object.");
  }
  const source = withoutNulls(value);
  refuseNewer(source["schema_version"]);
  normaliseNested(source);

  const parsed = Fields.safeParse(source);
  if (!parsed.success) {
    const issue = parsed.error.issues[0];
    throw invalid(source, `${issue?.path.join(".") ?? ""}: ${issue?.message ?? ""}`);
  }
  const known = limits.checkedPromptLength ?? 0;
  const prompt = checkTokenIds("prompt_token_ids", source["prompt_token_ids"], limits, known);
  const generation = checkTokenIds("generation_token_ids", source["generation_token_ids"], limits);
  const logProbs = checkLogProbs(
    "generation_log_probs",
    source["generation_log_probs"],
    generation.length,
  );
  const arrays = {
    prompt_token_ids: prompt,
    generation_token_ids: generation,
    generation_log_probs: logProbs,
  };
  const carrier = placeCarrier(parsed.data.output_items, parsed.data.token_item_index, arrays);
  const entry: TokenEntry = { ...parsed.data, ...carrier, ...arrays };
  checkAgreement(entry);
  return entry;
}

/** The JSON form: plain arrays in place of typed ones. */
export function tokenEntryToJson(entry: TokenEntry): Record<string, unknown> {
  return {
    ...entry,
    prompt_token_ids: Array.from(entry.prompt_token_ids),
    generation_token_ids: Array.from(entry.generation_token_ids),
    generation_log_probs: Array.from(entry.generation_log_probs),
  };
}

/** The nested objects in which Python writers put null for what is absent. */
function normaliseNested(source: Record<string, unknown>): void {
  const { sampling, output_items: items } = source;
  if (sampling instanceof Object) source["sampling"] = withoutNulls(sampling);
  if (!Array.isArray(items)) return;
  source["output_items"] = items.map((item: unknown) => {
    if (!(item instanceof Object) || !("id" in item) || item.id != null) return item;
    const { id: _absent, ...rest } = item;
    return rest;
  });
}

function withoutNulls(value: object): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(value).filter(([, member]) => member !== null && member !== undefined),
  );
}

/** C2: decided before any other field is looked at, because their meaning may have changed. */
function refuseNewer(version: unknown): void {
  if (typeof version === "number" && version > SCHEMA_VERSION) {
    throw new CaptureError(
      "SCHEMA_TOO_NEW",
      `The record has schema_version ${version}; this build reads up to ${SCHEMA_VERSION}.`,
    );
  }
}

/** C4: finds the one item that carries the arrays and leaves them out of it; the record itself holds them. */
function placeCarrier(
  items: readonly OutputItem[],
  index: number | null,
  arrays: Pick<TokenEntry, (typeof ARRAY_FIELDS)[number]>,
): Pick<TokenEntry, "output_items" | "token_item_index"> {
  const carriers = items.flatMap((item, at) =>
    ARRAY_FIELDS.some((field) => item[field] !== undefined && item[field] !== null) ? [at] : [],
  );
  if (carriers.length > 1) {
    throw new CaptureError(
      "MULTIPLE_TOKEN_CARRIERS",
      `Output items ${carriers.join(" and ")} all carry token arrays; exactly one may.`,
    );
  }
  const carrier = carriers[0];
  const at = index ?? carrier ?? null;
  if (at !== null && at >= items.length) {
    throw invalid({}, `token_item_index: ${at} is past the ${items.length} output items`);
  }
  if (carrier === undefined) return { output_items: items, token_item_index: at };
  if (carrier !== at) {
    throw invalid({}, `token_item_index: is ${at}, but output item ${carrier} carries the arrays`);
  }
  return {
    output_items: items.map((item, i) => (i === carrier ? bareItem(item, arrays) : item)),
    token_item_index: at,
  };
}

function bareItem(
  item: OutputItem,
  arrays: Pick<TokenEntry, (typeof ARRAY_FIELDS)[number]>,
): OutputItem {
  const bare: Record<string, unknown> & { type: string } = { ...item };
  for (const field of ARRAY_FIELDS) {
    const carried = item[field];
    delete bare[field];
    if (carried === undefined || carried === null) continue;
    const own = arrays[field];
    const same = own.length === (carried as ArrayLike<unknown>).length;
    if (!same || !own.every((value, i) => value === (carried as ArrayLike<unknown>)[i])) {
      throw invalid({}, `output_items: ${field} of the carrier differs from the record's own`);
    }
  }
  return bare;
}

/** Fields that say the same thing twice must agree. */
function checkAgreement(entry: TokenEntry): void {
  const length = entry.prompt_token_ids.length + entry.generation_token_ids.length;
  if (entry.cum_len !== undefined && entry.cum_len !== length) {
    throw invalid(
      entry,
      `cum_len: is ${entry.cum_len}, prompt and generation have ${length} tokens`,
    );
  }
  if (entry.policy_version_spans !== undefined) checkSpans(entry, entry.policy_version_spans);
  const ids = entry.served_tool_call_ids;
  const calls = entry.served_tool_calls;
  if (ids === undefined || calls === undefined) return;
  if (ids.length !== calls.length || calls.some((call, i) => call.id !== ids[i])) {
    throw invalid(entry, "served_tool_call_ids: differ from the ids of served_tool_calls");
  }
}

function checkSpans(entry: TokenEntry, spans: readonly PolicyVersionSpan[]): void {
  const generated = entry.generation_token_ids.length;
  const inOrder = spans.every(({ start, end }, at) => {
    return start === (spans[at - 1]?.end ?? 0) && end > start;
  });
  if (inOrder && (spans.at(-1)?.end ?? 0) === generated) return;
  throw invalid(
    entry,
    `policy_version_spans: must cover the ${generated} generated tokens, each once and in order`,
  );
}

function invalid(record: { readonly model_call_id?: unknown }, what: string): CaptureError {
  const id = record.model_call_id;
  const whose = typeof id === "string" ? `Record of call ${JSON.stringify(id)}` : "Token record";
  return new CaptureError("RECORD_INVALID", `${whose}: ${what}.`);
}
