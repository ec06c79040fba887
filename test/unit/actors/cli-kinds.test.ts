import { createRequire } from "node:module";
import { describe, expect, test } from "vitest";
import {
  sdkQuery,
  startClaudeAgentSdk,
} from "../../../src/actors/agent-harness/kinds/claude-agent-sdk.js";
import { CodexReader, codexConfig } from "../../../src/actors/agent-harness/kinds/codex.js";
import { filled } from "../../../src/actors/agent-harness/kinds/command.js";
import {
  OpencodeReader,
  opencodeConfig,
} from "../../../src/actors/agent-harness/kinds/opencode.js";
import { PiReader, piArguments, piHomeFiles } from "../../../src/actors/agent-harness/kinds/pi.js";
import {
  type ClaudeAgentSdkOptions,
  type CodexOptions,
  type OpencodeOptions,
  type PiOptions,
  parseAgentHarnessOptions,
} from "../../../src/actors/agent-harness/options.js";

const launch = {
  request: {
    rolloutId: "r",
    task: { _ng_task_index: 0, responses_create_params: { input: "x" } },
    baseUrl: "http://127.0.0.1:1/ng-rollout/r",
    apiKey: "key",
    model: 'po"licy',
    timeoutMs: 90_000,
    maxTurns: 8,
  },
  prompt: "do {api_key} it",
  directory: { root: "/tmp/c", cwd: "/tmp/c/w", home: "/tmp/c/h", temp: "/tmp/c/t" },
};

const read = <T extends { line(text: string): void }>(reader: T, lines: readonly object[]): T => {
  reader.line("WARNING: no JSON");
  reader.line("{ cut");
  for (const line of lines) reader.line(JSON.stringify(line));
  return reader;
};

describe("Codex", () => {
  const item = (type: string, text?: string) => ({ type: "item.completed", item: { type, text } });

  test("X1. the configuration names the endpoint, the deadline and what is off; the key is not in it", () => {
    const options = parseAgentHarnessOptions({ kind: "codex", maxRetries: 3 }) as CodexOptions;
    const config = codexConfig(options, launch);
    expect(config.split("\n")).toEqual(
      expect.arrayContaining([
        'model = "po\\"licy"',
        'base_url = "http://127.0.0.1:1/ng-rollout/r/v1"',
        'env_key = "CORRAL_KEY"',
        "request_max_retries = 3",
        "stream_idle_timeout_ms = 90000",
        "plugins = false",
        "apps = false",
      ]),
    );
    expect(config).not.toContain('"key"');
  });

  test("a turn that completed has the last message as its answer; tools are turns", () => {
    const lines = [
      item("error", "no metadata"),
      item("agent_message", "first"),
      item("command_execution"),
      item("reasoning"),
      item("agent_message", "last"),
      { type: "turn.completed" },
    ];
    const reader = read(new CodexReader(), lines);
    expect(reader.turns).toBe(1);
    expect(reader.result(0)).toEqual({ finalText: "last", finalMessageId: null, failure: null });
  });

  test("a turn that failed is a MODEL_ERROR, one that stopped half-way a HARNESS_ERROR", () => {
    const failed = { type: "turn.failed", error: { message: "refused" } };
    expect(read(new CodexReader(), [failed]).result(1).failure).toEqual({
      code: "MODEL_ERROR",
      message: "refused",
      retryable: true,
    });
    const stopped = read(new CodexReader(), [item("agent_message", "half")]).result(0);
    expect(stopped).toMatchObject({ finalText: null, failure: { code: "HARNESS_ERROR" } });
  });
});

describe("opencode", () => {
  const options = parseAgentHarnessOptions({ kind: "opencode" }) as OpencodeOptions;
  const step = (reason: string, messageID: string) => ({
    type: "step_finish",
    part: { reason, messageID },
  });
  const said = (text: string, messageID: string) => ({ type: "text", part: { text, messageID } });

  test("O1. the configuration names the endpoint, offers the tools that work on files, and nothing is fetched", () => {
    expect(opencodeConfig(options, launch)).toMatchObject({
      provider: {
        corral: {
          npm: "@ai-sdk/openai-compatible",
          options: { baseURL: "http://127.0.0.1:1/ng-rollout/r/v1", apiKey: "key" },
          models: { 'po"licy': { limit: { context: 100_000, output: 1000 } } },
        },
      },
      model: 'corral/po"licy',
      permission: { "*": "deny", bash: "allow", read: "allow", edit: "allow", write: "allow" },
      autoupdate: false,
      share: "disabled",
    });
    expect(() => parseAgentHarnessOptions({ kind: "opencode", maxRetries: 1 })).toThrow(
      /maxRetries/,
    );
  });

  test("the last message is the answer; answers that called tools are turns", () => {
    const lines = [
      said("first", "m1"),
      step("tool-calls", "m1"),
      said("it says ", "m2"),
      said("blue", "m2"),
      step("stop", "m2"),
    ];
    const reader = read(new OpencodeReader(), lines);
    expect(reader.turns).toBe(1);
    expect(reader.result(0)).toEqual({
      finalText: "it says blue",
      finalMessageId: null,
      failure: null,
    });
    expect(reader.result(1).failure).toMatchObject({ code: "HARNESS_ERROR" });
  });

  test("an error is a MODEL_ERROR although the exit code is 0; a run that ends in a tool call is none", () => {
    const error = { type: "error", error: { name: "APIError", data: { message: "refused" } } };
    expect(read(new OpencodeReader(), [error]).result(0)).toEqual({
      finalText: null,
      finalMessageId: null,
      failure: { code: "MODEL_ERROR", message: "refused", retryable: true },
    });
    const cut = read(new OpencodeReader(), [said("a", "m1"), step("tool-calls", "m1")]);
    expect(cut.result(0).failure).toMatchObject({ code: "HARNESS_ERROR" });
  });
});

describe("the Claude Agent SDK", () => {
  const options = parseAgentHarnessOptions({ kind: "claude_agent_sdk" }) as ClaudeAgentSdkOptions;

  test("S1. its call has the profile of the CLI: tools, limits, environment, and no settings of this machine", () => {
    process.env["PLANTED_SECRET"] = "do-not-leak-me";
    const { prompt, options: given } = sdkQuery(options, "/opt/claude", launch, null);
    delete process.env["PLANTED_SECRET"];
    expect(prompt).toBe("do {api_key} it");
    expect(given).toMatchObject({
      pathToClaudeCodeExecutable: "/opt/claude",
      cwd: "/tmp/c/w",
      maxTurns: 8,
      tools: ["Bash", "Read", "Write", "Edit"],
      settingSources: [],
      persistSession: false,
      env: { ANTHROPIC_BASE_URL: launch.request.baseUrl, ANTHROPIC_API_KEY: "key" },
    });
    expect(JSON.stringify(given)).not.toContain("do-not-leak-me");
  });

  test.skipIf(isInstalled("@anthropic-ai/claude-agent-sdk"))(
    "an SDK that is not installed says how to install it",
    async () => {
      await expect(
        startClaudeAgentSdk(options, undefined as never, undefined as never),
      ).rejects.toMatchObject({
        code: "HARNESS_NOT_FOUND",
        message:
          "the Claude Agent SDK is not installed; install it with: npm install --save-dev @anthropic-ai/claude-agent-sdk@0.3.332",
      });
    },
  );
});

function isInstalled(name: string): boolean {
  try {
    createRequire(import.meta.url).resolve(name);
    return true;
  } catch {
    return false;
  }
}

describe("pi", () => {
  const turn = (stopReason: string, text: string, more = {}) => ({
    type: "turn_end",
    message: {
      role: "assistant",
      content: [
        { type: "thinking", thinking: "hm" },
        { type: "text", text },
      ],
      stopReason,
      responseId: "chatcmpl-1",
      ...more,
    },
  });

  test("a run that ended has the last message as its answer, by the id that was served", () => {
    const reader = read(new PiReader(), [
      { type: "message_update", message: { role: "assistant" } },
      turn("toolUse", "first"),
      turn("stop", "last", { responseId: "chatcmpl-2" }),
      { type: "agent_end", messages: [] },
    ]);
    expect(reader.turns).toBe(1);
    expect(reader.result(0)).toEqual({
      finalText: "last",
      finalMessageId: "chatcmpl-2",
      failure: null,
    });
  });

  test("an error in the last message is a MODEL_ERROR although the exit code is 0", () => {
    const failed = turn("error", "", { errorMessage: "503 no engine" });
    const { failure } = read(new PiReader(), [failed, { type: "agent_end" }]).result(0);
    expect(failure).toEqual({ code: "MODEL_ERROR", message: "503 no engine", retryable: true });
  });

  test("no end, or another exit code, is a HARNESS_ERROR", () => {
    expect(read(new PiReader(), [turn("stop", "x")]).result(0).failure?.code).toBe("HARNESS_ERROR");
    const ended = read(new PiReader(), [turn("stop", "x"), { type: "agent_end" }]);
    expect(ended.result(1).failure?.code).toBe("HARNESS_ERROR");
  });

  test("its configuration names the endpoint; the key is not in it", () => {
    const options = parseAgentHarnessOptions({ kind: "pi" }) as PiOptions;
    const files = piHomeFiles(options, launch);
    const { providers } = JSON.parse(files[".pi/agent/models.json"] ?? "");
    expect(providers.corral).toMatchObject({
      baseUrl: "http://127.0.0.1:1/ng-rollout/r/v1",
      api: "openai-completions",
      apiKey: "CORRAL_KEY",
    });
    expect(piArguments(options, launch)).toContain("--no-context-files");
  });
});

test("M1. placeholders of a command are filled once; what came in with one is not read as another", () => {
  expect(filled("{base_url}/v1 {model} {prompt} {workdir} {other} {constructor}", launch)).toBe(
    'http://127.0.0.1:1/ng-rollout/r/v1 po"licy do {api_key} it /tmp/c/w {other} {constructor}',
  );
});
