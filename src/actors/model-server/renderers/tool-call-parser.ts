/**
 * Reads a Qwen3 generation in id space: only the special ids delimit a tool call, so text that spells them is text.
 *
 * T1. Malformed markup stays text, verbatim. Nothing is repaired, and model text is only ever given to `JSON.parse`.
 */
import type { Vocabulary } from "../../../embedded-policy/index.js";
import type { ParsedTurn } from "./renderer.js";

export interface TurnMarks {
  readonly endOfTurn: number;
  readonly toolCallStart: number;
  readonly toolCallEnd: number;
}

type ParsedToolCall = ParsedTurn["toolCalls"][number];

export function parseQwen3Turn(
  ids: Int32Array,
  marks: TurnMarks,
  vocabulary: Pick<Vocabulary, "decode">,
): ParsedTurn {
  const body = ids.at(-1) === marks.endOfTurn ? ids.subarray(0, -1) : ids;
  const text: number[] = [];
  const toolCalls: ParsedToolCall[] = [];
  for (let at = 0; at < body.length; ) {
    const end = body[at] === marks.toolCallStart ? closingMark(body, at, marks) : -1;
    const call = end < 0 ? null : parseCall(vocabulary.decode(body.subarray(at + 1, end)));
    if (call === null) {
      text.push(body[at] ?? 0); // T1
      at += 1;
    } else {
      toolCalls.push(call);
      at = end + 1;
    }
  }
  return { text: vocabulary.decode(text), toolCalls };
}

/** Index of the mark that closes the call opened at `start`, or -1 when another opens first or none closes. */
function closingMark(body: Int32Array, start: number, marks: TurnMarks): number {
  for (let at = start + 1; at < body.length; at++) {
    if (body[at] === marks.toolCallEnd) return at;
    if (body[at] === marks.toolCallStart) return -1;
  }
  return -1;
}

function parseCall(json: string): ParsedToolCall | null {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch {
    return null;
  }
  if (!isObject(value)) return null;
  const { name, arguments: input = {} } = value;
  if (typeof name !== "string" || name === "" || !isObject(input)) return null;
  return { name, arguments: input };
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
