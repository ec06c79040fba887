/**
 * Llama 3: the whole answer is `{"name": …, "parameters": {…}}`, several joined by `;`, perhaps after `<|python_tag|>`.
 *
 * Nothing but the shape tells a call from an answer that is JSON, so only a request that offers tools has calls.
 */
import type { ParsedToolCall } from "../renderer.js";
import { joined } from "../segments.js";
import { isObject, parsedJson, type ToolFormat, toolCallOf } from "./tool-format.js";

const PYTHON_TAG = "<|python_tag|>";

export const llama3JsonFormat: ToolFormat = {
  marks: [PYTHON_TAG],
  parse(segments, tools) {
    const text = joined(segments);
    const none = { text, toolCalls: [], malformed: 0 };
    if (tools.length === 0) return none;
    const isTagged = segments[0]?.isMark === true;
    const body = isTagged ? joined(segments.slice(1)) : text;
    if (!isTagged && !/^\s*\{\s*"name"/.test(body)) return none;
    const toolCalls = parseCalls(body);
    if (toolCalls === null) return { ...none, malformed: 1 };
    return { text: "", toolCalls, malformed: 0 };
  },
};

/** All calls of the text, or null when it is anything else. */
function parseCalls(text: string): ParsedToolCall[] | null {
  const calls: ParsedToolCall[] = [];
  let rest = text.trim();
  while (rest !== "") {
    const end = objectEnd(rest);
    const value = end < 0 ? undefined : parsedJson(rest.slice(0, end));
    if (!isObject(value)) return null;
    const call = toolCallOf(value["name"], value["parameters"] ?? value["arguments"] ?? {});
    if (call === null) return null;
    calls.push(call);
    rest = rest.slice(end).trimStart();
    if (rest === "") break;
    if (!rest.startsWith(";")) return null;
    rest = rest.slice(1).trimStart();
  }
  return calls.length > 0 ? calls : null;
}

/** Index after the object that the text begins with; -1 when it does not begin with a whole one. */
function objectEnd(text: string): number {
  if (!text.startsWith("{")) return -1;
  let depth = 0;
  let inString = false;
  for (let at = 0; at < text.length; at++) {
    const character = text[at];
    if (inString) {
      if (character === "\\") at += 1;
      else if (character === '"') inString = false;
    } else if (character === '"') inString = true;
    else if (character === "{") depth += 1;
    else if (character === "}" && --depth === 0) return at + 1;
  }
  return -1;
}
