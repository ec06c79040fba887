import { describe, expect, test } from "vitest";
import { ClaudeResultReader } from "../../../src/actors/agent-harness/claude-result.js";

const assistant = (id: string, extra: object = {}) =>
  JSON.stringify({
    type: "assistant",
    message: { id, model: "policy", content: [] },
    parent_tool_use_id: null,
    ...extra,
  });
const synthetic = JSON.stringify({ type: "assistant", message: { id: "x", model: "<synthetic>" } });
const result = (fields: object) =>
  JSON.stringify({ type: "result", subtype: "success", is_error: false, ...fields });

function read(lines: readonly string[], exitCode: number | null) {
  const reader = new ClaudeResultReader();
  for (const line of lines) reader.line(line);
  return reader.result(exitCode);
}

describe("ClaudeResultReader", () => {
  test("K1 completed is exit 0 and is_error false", () => {
    expect(read([assistant("m1"), result({ result: "done" })], 0)).toEqual({
      finalText: "done",
      finalMessageId: "m1",
      failure: null,
    });
    expect(read([assistant("m1"), result({ result: "done" })], 1).failure).toMatchObject({
      code: "HARNESS_ERROR",
    });
  });

  test("K1 the result line of 2.1.332 has its type in the middle", () => {
    const line =
      '{"duration_ms":1,"subtype":"success","is_error":false,"type":"result","result":"done"}';
    expect(read([assistant("m1"), line], 0)).toMatchObject({ finalText: "done", failure: null });
  });

  test("K1 subtype success with is_error is a model error without a final text", () => {
    const line = result({ is_error: true, api_error_status: 400, result: "API Error: 400 nope" });
    expect(read([synthetic, line], 1)).toEqual({
      finalText: null,
      finalMessageId: null,
      failure: { code: "MODEL_ERROR", message: "API Error: 400 nope", retryable: false },
    });
  });

  test.each([
    [400, false],
    [403, false],
    [408, true],
    [429, true],
    [500, true],
    [529, true],
    [null, true],
  ])("a model error with status %s is retryable: %s", (status, retryable) => {
    const line = result({ is_error: true, api_error_status: status, result: "x" });
    expect(read([line], 1).failure).toMatchObject({ code: "MODEL_ERROR", retryable });
  });

  test("a full context is a model error that comes again", () => {
    const line = result({
      is_error: true,
      terminal_reason: "blocking_limit",
      result: "Prompt is too long",
    });
    expect(read([line], 1).failure).toMatchObject({ code: "MODEL_ERROR", retryable: false });
  });

  test("max turns keeps the last message id", () => {
    const line = result({
      subtype: "error_max_turns",
      is_error: true,
      errors: ["Reached maximum number of turns (2)"],
    });
    expect(read([assistant("m1"), assistant("m2"), line], 1)).toEqual({
      finalText: null,
      finalMessageId: "m2",
      failure: {
        code: "MAX_TURNS",
        message: "Reached maximum number of turns (2)",
        retryable: false,
      },
    });
  });

  test("K2 sub-agents and synthetic messages are not the final message", () => {
    const subagent = assistant("sub", { parent_tool_use_id: "toolu_1" });
    expect(
      read([assistant("m1"), subagent, synthetic, result({ result: "done" })], 0).finalMessageId,
    ).toBe("m1");
  });

  test("no result line is a crash of the harness", () => {
    expect(read([assistant("m1"), "not json", '{"type":"result",'], null).failure).toEqual({
      code: "HARNESS_ERROR",
      message: "claude ended with a signal and no result line",
      retryable: true,
    });
  });
});
