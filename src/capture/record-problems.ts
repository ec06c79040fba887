/** What makes the records of a rollout unfit to be chained, whoever handed them over. */
import { compareIds } from "./call-graph.js";
import { canonicalJson } from "./canonical-json.js";
import { SCHEMA_VERSION, type TokenEntry } from "./records.js";
import { sameTokens } from "./token-views.js";

/** Why there is no chain: `NO_ENTRIES`, `NO_SAFE_CHAIN`, `SCHEMA_TOO_NEW`, `RECORD_INVALID`, `RECORD_CONFLICT`. */
export interface BuildError {
  readonly code: string;
  readonly message: string;
}

/** The first thing, in call-id order, that makes the records unfit to chain. */
export function findProblem(
  entries: readonly TokenEntry[],
  rolloutId: string,
): BuildError | undefined {
  if (entries.length === 0) return { code: "NO_ENTRIES", message: "no call was recorded" };
  const byId = new Map<string, TokenEntry>();
  const sorted = [...entries].sort((a, b) => compareIds(a.model_call_id, b.model_call_id));
  for (const entry of sorted) {
    const problem = entryProblem(entry, rolloutId, byId.get(entry.model_call_id));
    if (problem !== undefined) return problem;
    byId.set(entry.model_call_id, entry);
  }
  return undefined;
}

function entryProblem(
  entry: TokenEntry,
  rolloutId: string,
  twin: TokenEntry | undefined,
): BuildError | undefined {
  const call = `call ${entry.model_call_id}`;
  if (entry.schema_version > SCHEMA_VERSION) {
    const message = `${call}: schema_version ${String(entry.schema_version)}, this build reads up to ${String(SCHEMA_VERSION)}`;
    return { code: "SCHEMA_TOO_NEW", message };
  }
  if (entry.rollout_id !== rolloutId) {
    return { code: "RECORD_INVALID", message: `${call}: belongs to rollout ${entry.rollout_id}` };
  }
  const { generation_token_ids: ids, generation_log_probs: logProbs } = entry;
  if (ids.length !== logProbs.length || !allFinite(logProbs)) {
    const message = `${call}: ${String(ids.length)} ids need as many finite log probabilities`;
    return { code: "RECORD_INVALID", message };
  }
  if (twin !== undefined && !sameRecord(entry, twin)) {
    return { code: "RECORD_CONFLICT", message: `${call}: recorded twice with unlike payloads` };
  }
  return undefined;
}

/** A loop: `every` calls out for each value. */
function allFinite(values: Float64Array): boolean {
  for (let index = 0; index < values.length; index += 1) {
    if (!Number.isFinite(values[index])) return false;
  }
  return true;
}

/** A transport that delivers at least once may repeat a record; it must be the same one. */
function sameRecord(a: TokenEntry, b: TokenEntry): boolean {
  return (
    a.digest === b.digest &&
    a.parent_resolution === b.parent_resolution &&
    a.parent_call_id === b.parent_call_id &&
    a.token_item_index === b.token_item_index &&
    canonicalJson(a.output_items) === canonicalJson(b.output_items) &&
    sameTokens(a.prompt_token_ids, b.prompt_token_ids) &&
    sameTokens(a.generation_token_ids, b.generation_token_ids) &&
    a.generation_log_probs.every((value, index) => value === b.generation_log_probs[index])
  );
}
