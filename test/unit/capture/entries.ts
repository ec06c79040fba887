/** Records for tests, made short. */
import { readFileSync } from "node:fs";
import { gunzipSync } from "node:zlib";
import type { OutputItem, TokenEntry } from "../../../src/capture/index.js";

export type JsonEntry = Record<string, unknown> & { rollout_id: string; model_call_id: string };

export interface BuilderCase {
  entries: JsonEntry[];
  expected: {
    rollout_id: string;
    rebuilt_response: { output: unknown[]; usage: unknown } | null;
    metrics: Record<string, number>;
    mask_sample: boolean;
    unresolved_retries?: string[];
    error?: string;
  };
}

export function builderCases(): BuilderCase[] {
  const file = new URL("../../fixtures/builder-cases.jsonl.gz", import.meta.url);
  const lines = gunzipSync(readFileSync(file)).toString().trim().split("\n");
  return lines.map((line) => JSON.parse(line) as BuilderCase);
}

/** A JSON record that is known to be sound, in memory. */
export function fromJson(json: JsonEntry): TokenEntry {
  return {
    ...({ schema_version: 1, ...json } as unknown as TokenEntry),
    prompt_token_ids: Int32Array.from(json["prompt_token_ids"] as number[]),
    generation_token_ids: Int32Array.from(json["generation_token_ids"] as number[]),
    generation_log_probs: Float64Array.from(json["generation_log_probs"] as number[]),
  };
}

/** A record of rollout `r` with the given tokens; log probability -0.5 each. */
export function call(
  id: string,
  prompt: ArrayLike<number>,
  generation: ArrayLike<number>,
  more: Partial<TokenEntry> = {},
): TokenEntry {
  const item: OutputItem = { type: "message", id: `item-${id}` };
  return {
    schema_version: 1,
    rollout_id: "r",
    model_call_id: id,
    model: "m",
    prompt_token_ids: prompt instanceof Int32Array ? prompt : Int32Array.from(prompt),
    generation_token_ids:
      generation instanceof Int32Array ? generation : Int32Array.from(generation),
    generation_log_probs: new Float64Array(generation.length).fill(-0.5),
    output_items: [item],
    token_item_index: 0,
    created_at: 1000,
    ...more,
  };
}

/** Verdict fields. */
export const root = { parent_resolution: "ROOT" } as const;
export function continues(parent: string) {
  return { parent_resolution: "RESOLVED", parent_call_id: parent } as const;
}
