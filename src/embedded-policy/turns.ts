/**
 * Splits prompt ids into chat turns, by special ids only.
 *
 * Decoded text never decides structure: content that merely spells `<|im_end|>`, `<tool_call>` or `<tool_response>` is
 * made of ordinary ids and stays content.
 *
 * T1. A turn begins at an `<|im_start|>` id and its content ends at the first `<|im_end|>` id after it.
 * T2. Any ids are accepted; what lies before the first `<|im_start|>`, or is no id of the vocabulary, is skipped.
 */
import type { Vocabulary } from "./types.js";

/** The special ids that structure a prompt. */
export interface StructureIds {
  readonly turnStart: number;
  readonly turnEnd: number;
  readonly call: number;
  readonly callEnd: number;
  readonly result: number;
  readonly resultEnd: number;
  readonly thinkEnd: number;
}

/** One chat turn. */
export interface Turn {
  /** `system`, `user`, `assistant`; what the template wrote after `<|im_start|>`. */
  readonly role: string;
  /** Ids after `<|im_start|>` up to `<|im_end|>`, the role line included. A view. */
  readonly ids: Int32Array;
  /** False for the generation prompt and for a cut prompt. */
  readonly closed: boolean;
}

/** Ids that hold a turn's role line: `assistant`, `\n`, and one id that may have swallowed the newline. */
const ROLE_IDS = 4;

export function structureIds(vocabulary: Vocabulary): StructureIds {
  return {
    turnStart: vocabulary.specialId("<|im_start|>"),
    turnEnd: vocabulary.specialId("<|im_end|>"),
    call: vocabulary.specialId("<tool_call>"),
    callEnd: vocabulary.specialId("</tool_call>"),
    result: vocabulary.specialId("<tool_response>"),
    resultEnd: vocabulary.specialId("</tool_response>"),
    thinkEnd: vocabulary.specialId("</think>"),
  };
}

/** The turns of a prompt, in order (T1, T2). Linear in the prompt. */
export function splitTurns(promptIds: Int32Array, vocabulary: Vocabulary, s: StructureIds): Turn[] {
  const ids = promptIds.filter((id) => id >= 0 && id < vocabulary.size);
  const turns: Turn[] = [];
  let start = ids.indexOf(s.turnStart);
  while (start >= 0) {
    const next = ids.indexOf(s.turnStart, start + 1);
    const whole = ids.subarray(start + 1, next < 0 ? ids.length : next);
    const end = whole.indexOf(s.turnEnd);
    const content = end < 0 ? whole : whole.subarray(0, end);
    const role = vocabulary.decode(content.subarray(0, ROLE_IDS)).split("\n", 1)[0] ?? "";
    turns.push({ role, ids: content, closed: end >= 0 });
    start = next;
  }
  return turns;
}

/** The turn's text after the role line. */
export function turnText(turn: Turn, vocabulary: Vocabulary): string {
  const text = vocabulary.decode(turn.ids);
  return text.slice(text.indexOf("\n") + 1 || text.length);
}

/** True when the template wrote this user turn around tool results: its first id after the role line is `<tool_response>`. */
export function holdsToolResults(turn: Turn, vocabulary: Vocabulary, s: StructureIds): boolean {
  if (turn.role !== "user") return false;
  const at = turn.ids.subarray(0, ROLE_IDS).indexOf(s.result);
  return at >= 0 && vocabulary.decode(turn.ids.subarray(0, at)).trim() === "user";
}

/** The ids between each opening and the next closing id; an opening without a closing one ends the list. */
export function between(ids: Int32Array, open: number, close: number): Int32Array[] {
  const parts: Int32Array[] = [];
  let at = ids.indexOf(open);
  while (at >= 0) {
    const end = ids.indexOf(close, at + 1);
    if (end < 0) break;
    parts.push(ids.subarray(at + 1, end));
    at = ids.indexOf(open, end + 1);
  }
  return parts;
}
