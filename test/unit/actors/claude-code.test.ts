import { afterEach, beforeEach, describe, expect, test } from "vitest";
import {
  claudeArguments,
  claudeEnvironment,
} from "../../../src/actors/agent-harness/kinds/claude-code.js";
import {
  type ClaudeCodeOptions,
  parseAgentHarnessOptions,
} from "../../../src/actors/agent-harness/options.js";

const options = parseAgentHarnessOptions({ kind: "claude_code" }) as ClaudeCodeOptions;
const launch = {
  request: {
    rolloutId: "r",
    task: { _ng_task_index: 0, responses_create_params: { input: "x" } },
    baseUrl: "http://127.0.0.1:1/ng-rollout/r",
    apiKey: "key",
    model: "policy",
    timeoutMs: 90_000,
    maxTurns: 8,
  },
  directory: { root: "/tmp/c", cwd: "/tmp/c/w", home: "/tmp/c/h", temp: "/tmp/c/t" },
};

beforeEach(() => {
  process.env["PLANTED_SECRET"] = "secret";
});
afterEach(() => {
  delete process.env["PLANTED_SECRET"];
});

describe("the Claude Code profile", () => {
  test("C1 the environment is this and nothing else", () => {
    expect(claudeEnvironment(options, launch, { uid: 65534, gid: 65534 })).toEqual({
      CLAUDE_CODE_TMPDIR: "/tmp/c/t",
      ANTHROPIC_BASE_URL: "http://127.0.0.1:1/ng-rollout/r",
      ANTHROPIC_API_KEY: "key",
      ANTHROPIC_MODEL: "policy",
      ANTHROPIC_DEFAULT_HAIKU_MODEL: "policy",
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
      CLAUDE_CODE_ATTRIBUTION_HEADER: "0",
      CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS: "1",
      CLAUDE_CODE_DISABLE_THINKING: "1",
      ENABLE_TOOL_SEARCH: "false",
      CLAUDE_CODE_DISABLE_BACKGROUND_TASKS: "1",
      DISABLE_PROMPT_CACHING: "1",
      DISABLE_COMPACT: "1",
      CLAUDE_STREAM_IDLE_TIMEOUT_MS: "90000",
      CLAUDE_CODE_MAX_CONTEXT_TOKENS: "100000",
      CLAUDE_CODE_MAX_OUTPUT_TOKENS: "1000",
      CLAUDE_CODE_MAX_RETRIES: "2",
      CLAUDE_CODE_EXTRA_BODY: '{"temperature":1}',
    });
  });

  test.runIf(process.getuid?.() === 0)("C2 root without another user says so to the CLI", () => {
    expect(claudeEnvironment(options, launch, null)["IS_SANDBOX"]).toBe("1");
  });

  test.each([
    [12_000, 1000, "100000", (12_000 / 99_000) * 100],
    [150_000, 30_000, "200000", (150_000 / 180_000) * 100],
    [1_000_000, 1000, "100000", 100],
  ])("compaction at %i tokens", (compactAtTokens, maxOutputTokens, window, percent) => {
    const maxContextTokens = Number(window);
    const env = claudeEnvironment(
      { ...options, compactAtTokens, maxOutputTokens, maxContextTokens },
      launch,
      null,
    );
    expect(env).not.toHaveProperty("DISABLE_COMPACT");
    expect(env["CLAUDE_CODE_AUTO_COMPACT_WINDOW"]).toBe(window);
    expect(Number(env["CLAUDE_AUTOCOMPACT_PCT_OVERRIDE"])).toBeCloseTo(percent, 9);
  });

  test("the flags", () => {
    expect(claudeArguments(options, 8).join(" ")).toBe(
      "-p --output-format stream-json --verbose --dangerously-skip-permissions --tools Bash,Read,Write,Edit --strict-mcp-config --disable-slash-commands --setting-sources= --no-session-persistence --max-turns 8",
    );
  });

  test.each([
    [{ kind: "gemini" }, /kind/],
    [{ kind: "claude_code", maxOutputTokens: 0 }, /maxOutputTokens/],
    [{ kind: "claude_code", colour: 1 }, /colour/],
    [{ kind: "function", module: "./x.js", exportName: "a" }, /module: must be a file: URL/],
  ])("an option that cannot be used is named: %j", (value, message) => {
    expect(() => parseAgentHarnessOptions(value)).toThrow(message);
  });
});
