import { describe, expect, test } from "vitest";
import { CodexReader, codexConfig } from "../../../src/actors/agent-harness/kinds/codex.js";
import { filled } from "../../../src/actors/agent-harness/kinds/command.js";
import { PiReader, piArguments, piHomeFiles } from "../../../src/actors/agent-harness/kinds/pi.js";
import {
  type CodexOptions,
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
