/**
 * Takes the policy's thinking out of a generation.
 *
 * T1. What is left never holds reasoning: a block that was opened and not closed is reasoning to its end.
 * T2. A closing mark without an opening one is text, unless the prompt itself opened the block.
 */
import { joined, type Segment } from "./segments.js";

export interface ReasoningMarks {
  readonly open: string;
  readonly close: string;
}

export interface SplitReasoning {
  /** "" when there is none. Line breaks at its ends are the template's and left out. */
  readonly reasoning: string;
  readonly rest: readonly Segment[];
}

/** @param isOpen the prompt ends inside a reasoning block. */
export function splitReasoning(
  segments: readonly Segment[],
  marks: ReasoningMarks,
  isOpen: boolean,
): SplitReasoning {
  const thoughts: Segment[] = [];
  const rest: Segment[] = [];
  let inside = isOpen;
  let closedJustNow = false;
  for (const segment of segments) {
    if (segment.isMark && segment.text === (inside ? marks.close : marks.open)) {
      closedJustNow = inside;
      inside = !inside;
      continue;
    }
    if (inside) {
      thoughts.push(segment);
      continue;
    }
    // The template writes line breaks after a block, and takes them off again.
    const text = closedJustNow ? segment.text.replace(/^\n+/, "") : segment.text;
    closedJustNow &&= text === "";
    if (text !== "") rest.push({ ...segment, text });
  }
  return { reasoning: joined(thoughts).replace(/^\n+/, "").trimEnd(), rest };
}
