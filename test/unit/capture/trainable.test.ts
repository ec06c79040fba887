import { describe, expect, it } from "vitest";
import { isTrainable } from "../../../src/capture/index.js";

const first = {
  type: "message",
  prompt_token_ids: [1],
  generation_token_ids: [2],
  generation_log_probs: [-0.5],
};
const second = {
  type: "message",
  prompt_token_ids: [1, 2, 3],
  generation_token_ids: [4, 5],
  generation_log_probs: [-0.1, 0],
};
const metrics = { n_calls: 2, generated_tokens_delivered: 3, mask_reasons: [] };
const row = (more = {}) => ({
  reward: 0,
  response: { output: [first, { type: "reasoning" }, second] },
  _ng_token_capture: metrics,
  ...more,
});
const withItem = (more: object) => row({ response: { output: [first, { ...second, ...more }] } });
const withMetrics = (more: object) => row({ _ng_token_capture: { ...metrics, ...more } });

describe("isTrainable", () => {
  it("is true for a proven row, with plain or typed arrays", () => {
    expect(isTrainable(row())).toBe(true);
    expect(isTrainable(row({ mask_sample: false }))).toBe(true);
    const typed = {
      prompt_token_ids: Int32Array.of(1, 2, 3),
      generation_log_probs: Float64Array.of(-0.1, 0),
    };
    expect(isTrainable(withItem(typed))).toBe(true);
  });

  const negatives: [string, unknown][] = [
    ["T1 nothing", null],
    ["T1 masked", row({ mask_sample: true })],
    ["T1 a mask of another type", row({ mask_sample: "true" })],
    ["T1 no reward", row({ reward: null })],
    ["T1 reward NaN", row({ reward: Number.NaN })],
    ["T1 reward as text", row({ reward: "1" })],
    ["T1 no metrics", row({ _ng_token_capture: undefined })],
    ["T1 no calls", withMetrics({ n_calls: 0 })],
    ["T1 calls as text", withMetrics({ n_calls: "2" })],
    ["T1 an error", withMetrics({ error: "NO_SAFE_CHAIN: …" })],
    ["T1 incomplete", withMetrics({ capture_incomplete: true })],
    ["T1 a reason without the mask", withMetrics({ mask_reasons: [{ code: "X" }] })],
    ["T1 another count of tokens", withMetrics({ generated_tokens_delivered: 4 })],
    ["T2 no response", row({ response: null })],
    ["T2 no items", row({ response: { output: [] } })],
    ["T2 only items without arrays", row({ response: { output: [{ type: "message" }] } })],
    ["T2 no prompt array", withItem({ prompt_token_ids: undefined })],
    ["T2 no log probabilities", withItem({ generation_log_probs: undefined })],
    [
      "T2 only log probabilities",
      withItem({ prompt_token_ids: undefined, generation_token_ids: undefined }),
    ],
    ["T2 an empty generation", withItem({ generation_token_ids: [], generation_log_probs: [] })],
    ["T2 an empty prompt", row({ response: { output: [{ ...first, prompt_token_ids: [] }] } })],
    ["T2 one log probability short", withItem({ generation_log_probs: [-0.1] })],
    ["T2 a null log probability", withItem({ generation_log_probs: [-0.1, null] })],
    ["T2 a NaN log probability", withItem({ generation_log_probs: [-0.1, Number.NaN] })],
    ["T2 minus infinity", withItem({ generation_log_probs: [-0.1, Number.NEGATIVE_INFINITY] })],
    ["T2 -9999", withItem({ generation_log_probs: [-0.1, -9999] })],
    ["T2 a positive log probability", withItem({ generation_log_probs: [-0.1, 0.1] })],
    ["T2 a fraction as id", withItem({ generation_token_ids: [4, 5.5] })],
    ["T2 a negative id", withItem({ generation_token_ids: [4, -5] })],
    ["T2 an id of 2^31", withItem({ generation_token_ids: [4, 2 ** 31] })],
    ["T3 a prompt that lost a token", withItem({ prompt_token_ids: [1, 2].slice(0, 1) })],
    ["T3 a changed prompt token", withItem({ prompt_token_ids: [9, 2, 3] })],
    ["T3 a changed generated token", withItem({ prompt_token_ids: [1, 9, 3] })],
  ];
  it.each(negatives)("is false: %s", (_, value) => {
    expect(isTrainable(value)).toBe(false);
  });
});
