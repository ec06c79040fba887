/**
 * What a Claude Code run says about itself: a pure reader of its `stream-json` lines. It knows no process.
 *
 * K1. Completed means exit code 0 and a result line with `is_error: false`. The line's `subtype` says "success" for
 *     API errors too and decides nothing.
 * K2. The final message is the last one of the main thread that the policy wrote: sub-agents' messages and the CLI's
 *     own synthetic ones are never it.
 */
import { z } from "zod";
import type { RolloutFailure } from "../rollout.js";
import { type CliReader, type CliResult, jsonLine } from "./cli-harness.js";

const AssistantLine = z.looseObject({
  type: z.literal("assistant"),
  parent_tool_use_id: z.string().nullish(),
  message: z.looseObject({ id: z.string(), model: z.string().optional() }),
});

const ResultLine = z.looseObject({
  type: z.literal("result"),
  subtype: z.string().optional(),
  is_error: z.boolean(),
  result: z.string().optional(),
  api_error_status: z.number().nullish(),
  terminal_reason: z.string().optional(),
  errors: z.array(z.unknown()).optional(),
});
type ResultLine = z.infer<typeof ResultLine>;

/** Feed every line of standard output, then ask for the result. */
export class ClaudeResultReader implements CliReader {
  /** The CLI keeps its own limit. */
  readonly turns = 0;
  #messageId: string | null = null;
  #result: ResultLine | null = null;

  line(text: string): void {
    // Tool results can be megabytes and are not worth a parse. A result line may have its type anywhere (2.1.332).
    if (text.startsWith('{"type":"user"')) return;
    const value = jsonLine(text);
    const result = ResultLine.safeParse(value);
    if (result.success) {
      this.#result = result.data;
      return;
    }
    const assistant = AssistantLine.safeParse(value);
    if (!assistant.success) return;
    const { message, parent_tool_use_id: parent } = assistant.data;
    if ((parent ?? null) === null && message.model !== "<synthetic>") this.#messageId = message.id; // K2
  }

  result(exitCode: number | null): CliResult {
    const finalMessageId = this.#messageId;
    const line = this.#result;
    if (line === null) return { finalText: null, finalMessageId, failure: noResult(exitCode) };
    if (exitCode === 0 && !line.is_error)
      return { finalText: line.result ?? null, finalMessageId, failure: null }; // K1
    return { finalText: null, finalMessageId, failure: failureOf(line, exitCode) };
  }
}

function noResult(exitCode: number | null): RolloutFailure {
  const message = `claude ended with ${exitCode === null ? "a signal" : `exit code ${exitCode}`} and no result line`;
  return { code: "HARNESS_ERROR", message, retryable: true };
}

function failureOf(line: ResultLine, exitCode: number | null): RolloutFailure {
  const said = (line.result ?? line.errors?.map(String).join("; ") ?? "").slice(0, 500);
  if (line.subtype === "error_max_turns" || line.terminal_reason === "max_turns")
    return { code: "MAX_TURNS", message: said || "turn limit reached", retryable: false };
  if (!line.is_error)
    return { code: "HARNESS_ERROR", message: `claude exit code ${exitCode}`, retryable: true };
  if (line.subtype !== "success")
    return {
      code: "HARNESS_ERROR",
      message: `claude: ${line.subtype ?? "error"}: ${said}`,
      retryable: true,
    };
  const status = line.api_error_status ?? null;
  return { code: "MODEL_ERROR", message: said, retryable: modelErrorIsTransient(line, status) };
}

/** No status: the connection broke, unless the CLI itself refused (a full context). */
function modelErrorIsTransient(line: ResultLine, status: number | null): boolean {
  if (status === null) return line.terminal_reason !== "blocking_limit";
  return status >= 500 || status === 408 || status === 409 || status === 429;
}
