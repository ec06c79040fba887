import { describe, expect, test } from "vitest";
import { callPurpose } from "../../../../src/actors/model-server/dialects/call-purpose.js";
import { RequestError } from "../../../../src/actors/model-server/request-error.js";

const plain = { toolCount: 4, systemStart: "agent", lastUserText: "do it", asksTitle: false };
const purpose = (shape: Partial<typeof plain> = {}, headers: Record<string, string> = {}) =>
  callPurpose({ ...plain, ...shape }, headers);
const bare = { toolCount: 0 };

describe("the purpose of a call", () => {
  test.each([
    ["Q1 the header says it", purpose(bare, { "x-ng-call-purpose": "subagent" }), "subagent"],
    [
      "Q1 the header goes before every other rule",
      purpose({}, { "x-ng-call-purpose": "main", "x-claude-code-agent-id": "a" }),
      "main",
    ],
    ["Q2 a sub-agent's header", purpose({}, { "x-claude-code-agent-id": "a" }), "subagent"],
    [
      "Q2 a sub-agent's billing line",
      purpose({ systemStart: "x-anthropic-billing-header: cc_version=1; cc_is_subagent=true;" }),
      "subagent",
    ],
    ["Q2 not in other text", purpose({ systemStart: "say cc_is_subagent=true" }), "main"],
    [
      "Q3 opencode's parent session",
      purpose({}, { "x-session-id": "s2", "x-parent-session-id": "s1" }),
      "subagent",
    ],
    [
      "Q4 a compaction",
      purpose({ lastUserText: "CRITICAL: Respond with TEXT ONLY." }),
      "compaction",
    ],
    ["Q5 a title by its form", purpose({ ...bare, asksTitle: true }), "title"],
    ["Q5 a title of opencode", purpose(bare, { "x-session-id": "s" }), "title"],
    ["Q5 not with tools", purpose({ asksTitle: true }, { "x-session-id": "s" }), "main"],
    ["Q6 a toolless call by itself is main", purpose(bare), "main"],
  ])("%s", (_, got, want) => {
    expect(got).toBe(want);
  });

  test("Q1 a header that names no purpose is refused", () => {
    const wrong = () => purpose({}, { "x-ng-call-purpose": "fun" });
    expect(wrong).toThrow(RequestError);
    expect(wrong).toThrow(/x-ng-call-purpose is "fun"; allowed: main, subagent/);
  });
});
