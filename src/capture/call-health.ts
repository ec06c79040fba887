/**
 * Signs that a rollout is not what it seems although its tokens are exact. They warn; they never mask.
 *
 * H1. `SINGLE_CALL_WITH_TOOLS`: the only main call was offered tools. Normal for one rollout; when every rollout of a run
 *     shows it, the engine's tool calls do not reach the harness.
 * H2. `TOOL_MARKUP_IN_TEXT`: a call that was offered tools served text that holds a tool call's markup.
 */
import type { CallPurpose } from "./purpose.js";
import type { TokenEntry } from "./records.js";

export type CallWarning = "SINGLE_CALL_WITH_TOOLS" | "TOOL_MARKUP_IN_TEXT";

/** Markup of the tool formats in use: Hermes and Qwen, Qwen Coder, Llama, Mistral, DeepSeek, Claude. */
const MARKUP =
  /<\/?tool_calls?>|<function=|<\|python_tag\|>|\[TOOL_CALLS\]|<｜tool▁calls?▁begin｜>|<\|tool_calls?_begin\|>|<\/?function_calls>|<invoke name=/;
/** A call as bare JSON; a pattern for markup alone once passed a run of single-turn rollouts as healthy. */
const BARE_CALL = /\{\s*"name"\s*:\s*"[^"]+"\s*,\s*"(?:arguments|parameters)"\s*:/;

/** Contract: the calls of one rollout, with their purposes. */
export function callWarnings(
  calls: readonly TokenEntry[],
  purposes: ReadonlyMap<string, CallPurpose>,
): CallWarning[] {
  const main = calls.filter((call) => purposes.get(call.model_call_id) === "main");
  const single = main.length === 1 && offersTools(main[0]);
  const markup = calls.some((call) => offersTools(call) && holdsMarkup(call.served_text ?? ""));
  return [
    ...(single ? (["SINGLE_CALL_WITH_TOOLS"] as const) : []),
    ...(markup ? (["TOOL_MARKUP_IN_TEXT"] as const) : []),
  ];
}

function offersTools(call: TokenEntry | undefined): boolean {
  return (call?.tools_offered ?? 0) > 0;
}

function holdsMarkup(text: string): boolean {
  return MARKUP.test(text) || BARE_CALL.test(text);
}
