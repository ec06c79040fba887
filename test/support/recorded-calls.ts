import type { TokenEntry } from "../../src/capture/index.js";

/** A rollout of two calls, the second extending the first; the last one answers `text`. */
export function twoCalls(rolloutId: string, text = "done"): TokenEntry[] {
  const first = Int32Array.of(1, 2, 3);
  const second = Int32Array.of(1, 2, 3, 10, 11, 4);
  return [
    call(rolloutId, "a", first, Int32Array.of(10, 11), "working"),
    call(rolloutId, "b", second, Int32Array.of(12, 13, 14), text),
  ];
}

function call(
  rolloutId: string,
  name: string,
  prompt: Int32Array,
  generation: Int32Array,
  text: string,
): TokenEntry {
  return {
    schema_version: 1,
    rollout_id: rolloutId,
    model_call_id: `${rolloutId}-${name}`,
    model: "policy",
    prompt_token_ids: prompt,
    generation_token_ids: generation,
    generation_log_probs: new Float64Array(generation.length).fill(-0.5),
    output_items: [
      { type: "message", role: "assistant", content: [{ type: "output_text", text }] },
    ],
    token_item_index: 0,
    created_at: name === "a" ? 1 : 2,
    served_message_id: `msg-${rolloutId}-${name}`,
    served_text: text,
    finish_reason: "stop",
  };
}
