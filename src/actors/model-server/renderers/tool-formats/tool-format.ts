/** The seam to one way of writing tool calls. A new format is one such object, named in `families.ts`. */
import type { ToolSpecification } from "../../../../capture/index.js";
import type { ParsedToolCall } from "../renderer.js";
import type { Segment } from "../segments.js";

export interface ToolCalls {
  readonly text: string;
  readonly toolCalls: readonly ParsedToolCall[];
  /** Calls that were begun and are not well-formed. */
  readonly malformed: number;
}

/**
 * Contract: total and pure. Malformed markup stays text, verbatim: nothing is repaired, and model text is only ever
 * given to `JSON.parse`.
 */
export interface ToolFormat {
  readonly marks: readonly string[];
  parse(segments: readonly Segment[], tools: readonly ToolSpecification[]): ToolCalls;
}

/** A parsed call; null when it is none. */
export function toolCallOf(name: unknown, input: unknown): ParsedToolCall | null {
  if (typeof name !== "string" || name === "" || !isObject(input)) return null;
  return { name, arguments: input };
}

/** The value of a JSON text; undefined when it is no JSON. */
export function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Calls between an opening and a closing mark, each read by `parseCall`; all else is text. */
export function callsBetweenMarks(
  segments: readonly Segment[],
  [open, close]: readonly [open: string, close: string],
  parseCall: (body: string) => ParsedToolCall | null,
): ToolCalls {
  let text = "";
  let malformed = 0;
  const toolCalls: ParsedToolCall[] = [];
  for (let at = 0; at < segments.length; at++) {
    const segment = segments[at];
    if (segment === undefined) break;
    const opens = segment.isMark && segment.text === open;
    const end = opens ? closingMark(segments, at, open, close) : -1;
    const body = segments.slice(at + 1, end).map((part) => part.text);
    const call = end < 0 ? null : parseCall(body.join(""));
    if (call === null) {
      text += segment.text;
      if (opens) malformed += 1;
      continue;
    }
    toolCalls.push(call);
    at = end;
  }
  return { text, toolCalls, malformed };
}

/** Index of the mark that closes the call opened at `start`, or -1 when another opens first or none closes. */
function closingMark(
  segments: readonly Segment[],
  start: number,
  open: string,
  close: string,
): number {
  for (let at = start + 1; at < segments.length; at++) {
    const segment = segments[at];
    if (segment?.isMark !== true) continue;
    if (segment.text === close) return at;
    if (segment.text === open) return -1;
  }
  return -1;
}
