/**
 * Reads a Qwen3 generation in id space: only the special ids delimit a tool call, so text that spells them is text.
 *
 * T1. Malformed markup stays text, verbatim. Nothing is repaired, and model text is only ever given to `JSON.parse`.
 * T2. Reasoning is what a reasoning block that opens the turn encloses; a tool call inside it is not one. A block that
 *     is not closed stays text.
 */
import type { Vocabulary } from "../../../embedded-policy/index.js";
import type { ParsedTurn } from "./renderer.js";

export interface TurnMarks {
  readonly endOfTurn: number;
  readonly toolCallStart: number;
  readonly toolCallEnd: number;
  readonly thinkStart: number;
  readonly thinkEnd: number;
}

type ParsedToolCall = ParsedTurn["toolCalls"][number];

export function parseQwen3Turn(
  ids: Int32Array,
  marks: TurnMarks,
  vocabulary: Pick<Vocabulary, "decode">,
  readsToolCalls = true,
): ParsedTurn {
  const whole = ids.at(-1) === marks.endOfTurn ? ids.subarray(0, -1) : ids;
  const [thought, body] = splitReasoning(whole, marks);
  const text: number[] = [];
  const toolCalls: ParsedToolCall[] = [];
  for (let at = 0; at < body.length; ) {
    const opens = readsToolCalls && body[at] === marks.toolCallStart;
    const end = opens ? closingMark(body, at, marks) : -1;
    const call = end < 0 ? null : parseCall(vocabulary.decode(body.subarray(at + 1, end)));
    if (call === null) {
      text.push(body[at] ?? 0); // T1
      at += 1;
    } else {
      toolCalls.push(call);
      at = end + 1;
    }
  }
  const reasoning = vocabulary.decode(thought).trim();
  const answer = vocabulary.decode(text);
  // The template writes blank lines between reasoning and answer; they are no part of either.
  return { reasoning, text: thought.length > 0 ? answer.trimStart() : answer, toolCalls };
}

/** T2. */
function splitReasoning(
  ids: Int32Array,
  marks: TurnMarks,
): [thought: Int32Array, rest: Int32Array] {
  const end = ids[0] === marks.thinkStart ? ids.indexOf(marks.thinkEnd) : -1;
  return end < 0 ? [ids.subarray(0, 0), ids] : [ids.subarray(1, end), ids.subarray(end + 1)];
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
