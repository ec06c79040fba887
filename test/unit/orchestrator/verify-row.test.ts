import { describe, expect, it } from "vitest";
import { checkRow } from "../../../src/orchestrator/verify-row.js";

function item(prompt: unknown, generation: unknown, logProbs: unknown) {
  return {
    type: "message",
    prompt_token_ids: prompt,
    generation_token_ids: generation,
    generation_log_probs: logProbs,
  };
}

function row(output: unknown[], fields: object = {}) {
  return {
    _ng_rollout_id: "0-0",
    response: { output },
    _ng_token_capture: { n_calls: 1 },
    ...fields,
  };
}

const good = [item([1, 2], [3], [-0.5]), item([1, 2, 3, 4], [5, 6], [-1, 0])];

describe("checkRow", () => {
  it("accepts a contiguous row, with items that generated nothing between", () => {
    const checked = checkRow(row([good[0], { type: "function_call" }, good[1]]));
    expect(checked.faults).toEqual([]);
    expect(checked.items).toHaveLength(2);
  });

  it.each<[string, unknown[], string]>([
    [
      "Y1. a prompt that lost a token",
      [good[0], item([1, 2, 4, 4], [5], [-1])],
      "does not continue",
    ],
    [
      "Y1. a prompt that changed its start",
      [good[0], item([9, 2, 3, 4], [5], [-1])],
      "does not continue",
    ],
    ["Y1. nothing between two turns", [good[0], item([1, 2, 3], [5], [-1])], "does not continue"],
    ["Y2. unlike lengths", [item([1], [2, 3], [-1])], "1 log probabilities for 2 generated ids"],
    ["Y2. a log probability that is null", [item([1], [2], [null])], "holds null"],
    ["Y2. a positive log probability", [item([1], [2], [0.5])], "holds 0.5"],
    ["Y2. an id that is no integer", [item([1.5], [2], [-1])], "prompt_token_ids holds 1.5"],
    ["Y2. a negative id", [item([1], [-2], [-1])], "generation_token_ids holds -2"],
    ["Y2. an id that is no int32", [item([2 ** 31], [2], [-1])], "is no token id"],
    ["Y2. no log probabilities", [item([1], [2], undefined)], "generation_log_probs is no list"],
    ["Y3. no token", [], "without a generated token"],
  ])("%s", (_name, output, fault) => {
    expect(checkRow(row(output)).faults.join()).toContain(fault);
  });

  it("Y3. compares the metrics with what the row holds", () => {
    const metrics = { n_calls: 0, generated_tokens_delivered: 4 };
    const { faults } = checkRow(row(good, { _ng_token_capture: metrics }));
    expect(faults).toEqual([
      "is unmasked without a recorded call",
      "holds 3 generated tokens, but its metrics count 4",
    ]);
  });

  it("Y3. does not hold a masked row to its metrics", () => {
    expect(checkRow(row([], { mask_sample: true })).faults).toEqual([]);
    expect(checkRow(row([], { mask_sample: true }))).toMatchObject({ masked: true });
  });

  it("Y1. reads the delta form, where an item holds what it adds", () => {
    const output = [item([1, 2], [3], [-0.5]), item([4], [5, 6], [-1, 0])];
    const delta = (items: unknown[]) =>
      checkRow({ ...row([]), response: { output: items, output_form: "delta" } });
    expect(delta(output).faults).toEqual([]);
    expect(delta(output).items.map((one) => [...one.promptIds])).toEqual([
      [1, 2],
      [1, 2, 3, 4],
    ]);
    expect(delta([output[0], item([], [5], [-1])]).faults.join()).toContain("does not continue");
    expect(checkRow(row(output)).faults.join()).toContain("does not continue");
  });

  it("takes anything", () => {
    for (const value of [undefined, null, 1, "x", [], {}])
      expect(checkRow(value).faults).toHaveLength(1);
  });
});
