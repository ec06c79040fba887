import { describe, expect, it } from "vitest";
import { failedRollouts, RowTally } from "../../../src/orchestrator/run-summary.js";

describe("RowTally", () => {
  it("keeps masked and unmasked rewards apart and counts what is missing", () => {
    const tally = new RowTally((row) => (row as { selected?: boolean }).selected === true);
    const metrics = (calls: number, captured: number, delivered: number) => ({
      n_calls: calls,
      chains: 1,
      generated_tokens_captured: captured,
      generated_tokens_delivered: delivered,
      mask_reasons: [],
    });
    tally.add({ reward: 1, _ng_token_capture: metrics(2, 30, 30) });
    tally.add({ reward: 0, _ng_token_capture: metrics(4, 10, 10) });
    tally.add({
      reward: 1,
      mask_sample: true,
      _ng_token_capture: {
        ...metrics(3, 40, 10),
        warnings: ["TOOL_MARKUP_IN_TEXT", "TOOL_MARKUP_IN_TEXT"],
        mask_reasons: [
          { code: "MULTIPLE_CHAINS" },
          { code: "MULTIPLE_CHAINS" },
          { code: "INCOMPLETE" },
        ],
      },
    });
    tally.add({ reward: null, error: { code: "HARNESS_ERROR" }, selected: true });
    tally.add({ reward: 0, error: { code: "MAX_TURNS" } });
    tally.add("no row");
    expect(tally.counted).toEqual({
      rollouts: 5,
      completed: 3,
      masked: 1,
      maskReasons: { MULTIPLE_CHAINS: 1, INCOMPLETE: 1 },
      captured: 3,
      warnings: { TOOL_MARKUP_IN_TEXT: 1 },
      meanReward: { unmasked: 1 / 3, masked: 1 },
      meanCalls: 3,
      meanChains: 1,
      deliveredFraction: 50 / 80,
      tokensCaptured: 80,
      notRebuilt: 1,
      failures: { HARNESS_ERROR: 1, MAX_TURNS: 1 },
    });
  });

  it("has no mean of nothing", () => {
    const { meanReward, meanCalls, deliveredFraction } = new RowTally(() => true).counted;
    expect([meanReward.masked, meanReward.unmasked, meanCalls, deliveredFraction]).toEqual([
      null,
      null,
      null,
      null,
    ]);
  });

  it("counts used-up turns and time as results, everything else as failed", () => {
    const failures = { MAX_TURNS: 3, HARNESS_TIMEOUT: 2, HARNESS_ERROR: 1, VERIFIER_ERROR: 1 };
    expect(failedRollouts({ failures })).toBe(2);
  });
});
