/**
 * What the policy sees of a prompt: tools, working directory, the task's words, the last tool result, the turn number.
 *
 * A pure function of the ids, so that a chat request and its recorded ids give the same distribution.
 *
 * S1. Tools come from the first turn's block only, and only when the template closed that block with its own
 *     `</tool_call>` id; text that spells a block stays text.
 * S2. Any ids give a state: no system turn, no user turn, none at all.
 * S3. The state is small whatever the prompt's size: words, lines and lengths are capped.
 */
import { asRecord, parseTools, systemProse, type Tool } from "./tools.js";
import {
  between,
  holdsToolResults,
  type StructureIds,
  splitTurns,
  type Turn,
  turnText,
} from "./turns.js";
import type { Vocabulary } from "./types.js";

/** A word of the task that may be copied, with what stands around it. Neighbours are lower case. */
export interface TaskWord {
  readonly text: string;
  readonly previous: string;
  readonly beforePrevious: string;
  readonly next: string;
  /** Has a dot inside, as file names do. */
  readonly dotted: boolean;
  /** Occurs in an argument of an earlier call for this task. */
  readonly used: boolean;
}

/** See the module header. */
export interface PromptState {
  readonly tools: readonly Tool[];
  readonly workingDirectory: string | undefined;
  readonly words: readonly TaskWord[];
  /** Lower-case words of the task, each once. */
  readonly bag: readonly string[];
  readonly firstWord: string;
  /** Lines of the last tool result, line numbers stripped. */
  readonly resultLines: readonly string[];
  readonly resultWords: readonly string[];
  /** Assistant turns since the task, at most 4. */
  readonly turn: number;
  /** Name of the last tool called, `-` before the first; ends in `!` when its result is an error. */
  readonly lastTool: string;
}

const MAX_WORDS = 48;
const MAX_WORD_LENGTH = 64;
const MAX_BAG = 24;
const MAX_RESULT_IDS = 4096;
const MAX_LINES = 4;
const MAX_LINE_LENGTH = 80;
const MAX_RESULT_WORDS = 6;
const MAX_RESULT_WORD_LENGTH = 40;
const MAX_CALLS_READ = 64;

const PRINTABLE = /^[\x20-\x7e]+$/;
/** How Claude Code and shells begin the result of a failed call; the flag itself is not in the ids. */
const ERROR_RESULT = /^(<tool_use_error>|Exit code [1-9]|Error|File does not exist)/;

/** The state of a prompt (S1–S3). Linear in the prompt. */
export function promptState(ids: Int32Array, vocabulary: Vocabulary, s: StructureIds): PromptState {
  const turns = splitTurns(ids, vocabulary, s);
  const system = readSystem(turns[0], vocabulary, s);
  const task = findTask(turns, vocabulary, s);
  const history = readHistory(turns.slice(task.index + 1), vocabulary, s);
  const raw = taskWords(task.text);
  const bag = [...new Set(raw.map((word) => word.toLowerCase()))].slice(0, MAX_BAG);
  const lines = history.result
    .split("\n")
    .map((line) => line.replace(/^\s*\d+[\t\u2192]/, ""))
    .filter((line) => PRINTABLE.test(line) && line.trim() !== "")
    .slice(0, MAX_LINES);
  const resultWords = new Set(
    lines
      .flatMap((line) => line.split(/\s+/))
      .filter((w) => w !== "" && w.length < MAX_RESULT_WORD_LENGTH),
  );
  return {
    ...system,
    words: copyableWords(raw, history.used),
    bag,
    firstWord: (raw[0] ?? "").toLowerCase(),
    resultLines: lines.filter((line) => line.length < MAX_LINE_LENGTH),
    resultWords: [...resultWords].slice(0, MAX_RESULT_WORDS),
    turn: Math.min(history.turns, 4),
    lastTool: history.lastTool + (ERROR_RESULT.test(history.result) ? "!" : ""),
  };
}

function readSystem(turn: Turn | undefined, vocabulary: Vocabulary, s: StructureIds) {
  if (turn?.role !== "system") return { tools: [], workingDirectory: undefined };
  const text = turnText(turn, vocabulary);
  const offersTools = turn.ids.at(-1) === s.callEnd; // S1
  const prose = offersTools ? systemProse(text) : text;
  const directory = /working directory: (\/[\x21-\x7e]*)/.exec(prose)?.[1];
  return { tools: offersTools ? parseTools(text) : [], workingDirectory: directory };
}

/** The last user turn that says something of its own: neither tool results nor only the harness's reminders. */
function findTask(turns: readonly Turn[], vocabulary: Vocabulary, s: StructureIds) {
  for (let index = turns.length - 1; index >= 0; index--) {
    const turn = turns[index];
    if (turn?.role !== "user" || holdsToolResults(turn, vocabulary, s)) continue;
    const text = withoutReminders(turnText(turn, vocabulary)).trim();
    if (text !== "") return { index, text };
  }
  return { index: -1, text: "" };
}

function withoutReminders(text: string): string {
  let kept = "";
  let at = 0;
  for (;;) {
    const open = text.indexOf("<system-reminder>", at);
    const close = open < 0 ? -1 : text.indexOf("</system-reminder>", open);
    if (close < 0) return kept + text.slice(at);
    kept += text.slice(at, open);
    at = close + "</system-reminder>".length;
  }
}

/** What happened since the task: calls made, words used in them, the last result. */
function readHistory(turns: readonly Turn[], vocabulary: Vocabulary, s: StructureIds) {
  const used = new Set<string>();
  let lastTool = "-";
  let result = "";
  let count = 0;
  for (const turn of turns) {
    if (turn.role === "assistant" && turn.closed) {
      count++;
      const answer = turn.ids.subarray(turn.ids.lastIndexOf(s.thinkEnd) + 1);
      for (const call of between(answer, s.call, s.callEnd).slice(-MAX_CALLS_READ))
        lastTool = readCall(vocabulary.decode(call), used);
    } else if (holdsToolResults(turn, vocabulary, s)) {
      const last = between(turn.ids, s.result, s.resultEnd).at(-1);
      result = last ? vocabulary.decode(last.subarray(0, MAX_RESULT_IDS)).trim() : "";
    }
  }
  return { used, lastTool, result, turns: count };
}

/** Adds the words of a call's arguments to `used` and returns the tool's name, `?` when the call cannot be read. */
function readCall(json: string, used: Set<string>): string {
  try {
    const call = asRecord(JSON.parse(json));
    for (const value of Object.values(asRecord(call["arguments"])))
      if (typeof value === "string")
        for (const word of value.slice(0, 4096).split(/[\s/]+/)) used.add(word);
    return typeof call["name"] === "string" ? call["name"] : "?";
  } catch {
    return "?";
  }
}

/** The first words of the task, outer punctuation stripped (S3). */
function taskWords(text: string): string[] {
  const words: string[] = [];
  for (const [whole] of text.matchAll(/\S+/g)) {
    if (words.length === MAX_WORDS) break;
    // Cut before stripping: the pattern looks at every run of punctuation.
    const word = whole.slice(0, MAX_WORD_LENGTH + 1).replace(/^["'`(]+|["'`),.:;?!]+$/g, "");
    if (word !== "" && word.length <= MAX_WORD_LENGTH) words.push(word);
  }
  return words;
}

function copyableWords(raw: readonly string[], used: ReadonlySet<string>): TaskWord[] {
  const words = new Map<string, TaskWord>();
  raw.forEach((text, i) => {
    if (words.has(text) || !PRINTABLE.test(text)) return;
    words.set(text, {
      text,
      previous: (raw[i - 1] ?? "^").toLowerCase(),
      beforePrevious: (raw[i - 2] ?? "^").toLowerCase(),
      next: (raw[i + 1] ?? "$").toLowerCase(),
      dotted: /.\../.test(text),
      used: used.has(text),
    });
  });
  return [...words.values()];
}
