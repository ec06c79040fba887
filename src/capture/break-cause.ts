/** What broke a chain, read from the call's label and from the text where two sequences part. */
import type { CallNode } from "./call-graph.js";
import { canonicalJson } from "./canonical-json.js";
import type { CallPurpose } from "./purpose.js";
import type { TokenEntry } from "./records.js";

export type BreakCause =
  /** The same request again; a sibling stays in its place, or nothing decides. */
  | "retry"
  /** A sub-agent's own conversation. */
  | "sub-agent"
  /** A title, or another call beside the task. */
  | "auxiliary call"
  /** The history was summarised and began anew. */
  | "compaction"
  /** The nonce that Claude Code puts at the head of the system prompt. */
  | "billing line"
  /** The history came back without the reasoning that was sampled. */
  | "reasoning stripped"
  /** Tool arguments came back as other text with the same meaning. */
  | "arguments re-serialised"
  /** The same text in other tokens. */
  | "re-tokenised"
  /** A call was continued in two ways. */
  | "branch"
  /** A conversation of its own. */
  | "new conversation"
  /** What it continues was refused or not found; the reason tells. */
  | "unresolved"
  /** Records without verdicts, and the tokens fit several calls. */
  | "ambiguous";

/** Text around the first difference. */
interface Texts {
  readonly before: string;
  readonly recorded: string;
  readonly sent: string;
}

/** True when the call was judged when it was made. */
export function isLinked(entry: TokenEntry): boolean {
  return entry.parent_resolution !== undefined;
}

/** Contract: `earlier` are the calls made before; `texts` is absent when the prompt holds all of the nearest one. */
export function breakCause(
  node: CallNode,
  earlier: readonly CallNode[],
  purpose: CallPurpose,
  texts: Texts | undefined,
): BreakCause {
  if (node.superseded || node.undecided) return "retry";
  if (node.quarantined) return "ambiguous";
  if (node.parent !== null) return "branch";
  const isRoot = node.entry.parent_resolution === "ROOT";
  if (isRoot && node.entry.parent_resolution_reason === "COMPACTED") return "compaction";
  if (isRoot && purpose === "subagent") return "sub-agent";
  if (isRoot && purpose !== "main") return "auxiliary call";
  const shown = texts === undefined ? undefined : textCause(texts);
  if (shown !== undefined) return shown;
  if (!isRoot) return isLinked(node.entry) ? "unresolved" : "new conversation";
  const compacted = earlier.some(({ entry }) => entry.purpose === "compaction");
  return compacted ? "compaction" : "new conversation";
}

const THINK = /<think>[\s\S]*?(?:<\/think>|$)\s*/g;

function textCause({ before, recorded, sent }: Texts): BreakCause | undefined {
  const line = lastLine(before);
  if (/x-anthropic-billing-header/.test(line + firstLine(recorded))) return "billing line";
  if (/x-anthropic-billing-header/.test(line + firstLine(sent))) return "billing line";
  if (beginAlike(recorded, sent)) return "re-tokenised";
  if (beginAlike(withoutReasoning(recorded, before), sent)) return "reasoning stripped";
  const calls = [recorded, sent].map((text) => toolCallIn(before + text));
  const [a, b] = calls;
  return a !== undefined && a === b ? "arguments re-serialised" : undefined;
}

function firstLine(text: string): string {
  return text.split("\n", 1)[0] ?? "";
}

function lastLine(text: string): string {
  return text.slice(text.lastIndexOf("\n") + 1);
}

/** Characters that agree by more than chance when the first tokens differ. */
const ALIKE = 8;

/** The texts agree from the first character on, as far as the shorter goes or for long enough. */
function beginAlike(a: string, b: string): boolean {
  const length = Math.min(a.length, b.length, ALIKE);
  return length > 0 && a.slice(0, length) === b.slice(0, length);
}

/** The text without its reasoning, also when that began before it. */
function withoutReasoning(text: string, before: string): string {
  const open = before.lastIndexOf("<think>") > before.lastIndexOf("</think>");
  const inside = open ? `<think>${text}` : text;
  return inside.replace(THINK, "");
}

/** The last tool call of the text in one spelling; undefined when there is none, or it is not whole. */
function toolCallIn(text: string): string | undefined {
  const start = text.lastIndexOf("<tool_call>");
  const end = text.indexOf("</tool_call>", start);
  if (start < 0 || end < 0) return undefined;
  try {
    return canonicalJson(JSON.parse(text.slice(start + "<tool_call>".length, end)));
  } catch {
    return undefined;
  }
}
