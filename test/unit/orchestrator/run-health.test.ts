import { describe, expect, it } from "vitest";
import type { RunEvent } from "../../../src/orchestrator/run-events.js";
import { healthSigns, RunHealth } from "../../../src/orchestrator/run-health.js";

type RolloutEnd = Extract<RunEvent, { kind: "rollout_end" }>;

const ended = (more: Partial<RolloutEnd> = {}): RolloutEnd => ({
  kind: "rollout_end",
  slot: { pass: 0, taskIndex: 0, rolloutIndex: 0 },
  rolloutId: "0-0",
  attempt: 0,
  captured: true,
  rebuilt: true,
  warnings: [],
  reward: 1,
  masked: false,
  maskReasons: [],
  failure: null,
  calls: 1,
  generatedTokens: 1,
  wallMs: 1,
  ...more,
});

function watched(events: readonly RunEvent[], rebuildWanted = true): string[] {
  const told: string[] = [];
  const health = new RunHealth((event) => {
    if (event.kind === "warning") told.push(event.message);
  }, rebuildWanted);
  for (const event of events) health.see(event);
  return told;
}

const times = (count: number, event: RunEvent) => Array.from({ length: count }, () => event);
const single = ended({ warnings: ["SINGLE_CALL_WITH_TOOLS"] });
const markup = ended({ warnings: ["TOOL_MARKUP_IN_TEXT"] });
const masked = ended({ masked: true });

describe("H1 signs while the run goes on", () => {
  it("every rollout has one call although tools were offered (vLLM without a tool parser)", () => {
    expect(watched(times(7, single))).toEqual([]);
    expect(watched(times(20, single))).toEqual([
      expect.stringMatching(/^every rollout \(8\) has one/),
    ]);
    expect(watched([...times(20, single), ended()])).toHaveLength(1);
    expect(watched([ended(), ...times(20, single)])).toEqual([]);
  });

  it("tool markup left in text", () => {
    expect(watched([...times(7, ended()), markup])).toEqual([
      expect.stringMatching(/^1 of 8 rollouts have tool markup left in text/),
    ]);
  });

  it("all rollouts masked", () => {
    expect(watched(times(9, masked))).toEqual([expect.stringMatching(/^all 8 captured rollouts/)]);
    expect(watched([...times(7, masked), ended(), masked])).toEqual([]);
  });

  it("a row that was not rebuilt, at once, unless no row is", () => {
    const bare = ended({ rebuilt: false });
    expect(watched([bare, bare])).toEqual([expect.stringMatching(/^1 rows were not rebuilt/)]);
    expect(watched([bare], false)).toEqual([]);
    expect(watched([ended({ captured: false, rebuilt: false })])).toEqual([]);
  });
});

it("H1 signs at the end need no number of rollouts", () => {
  const none = { captured: 0, masked: 0, notRebuilt: 0, warnings: {} };
  expect([...healthSigns(none)]).toEqual([]);
  const one = { ...none, captured: 1, masked: 1, warnings: { SINGLE_CALL_WITH_TOOLS: 1 } };
  expect([...healthSigns(one).keys()]).toEqual(["SINGLE_CALL_WITH_TOOLS", "ALL_MASKED"]);
  expect([...healthSigns({ ...none, notRebuilt: 2 }).keys()]).toEqual(["NOT_REBUILT"]);
});
