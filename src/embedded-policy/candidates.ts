/** Candidate strings for free-text slots, and the features that say when each is a good choice. */
import type { Candidate } from "./choice-nodes.js";
import { FeatureVector } from "./features.js";
import type { PromptState, TaskWord } from "./prompt-state.js";

/** A place in the grammar where a value goes. */
export interface Slot {
  /** Unlike any other slot: `Write.1`, `ANSWER`. */
  readonly key: string;
  /** Shared by slots of one sort (`path`, `text`), so that what one learns helps the others. */
  readonly family: string;
}

/** Replies and contents that need no prompt. */
const PHRASES = ["Done.", "OK", "The file is ready.", "I cannot do that.", "Please wait."];

/** Names that a shell reads as one plain word and that stay in the working directory. */
const SAFE_NAME = /^[A-Za-z0-9_.][A-Za-z0-9._-]*$/;

/** For slots that need a name when the task has none. */
const FALLBACK_NAME = "file.txt";

function isSafeName(text: string): boolean {
  return SAFE_NAME.test(text) && !text.includes("..") && text !== ".";
}

/** Candidates for text: task words, result lines, result words, fixed phrases. Never empty. */
export function textCandidates(slot: Slot, state: PromptState): Candidate[] {
  return [
    ...wordCandidates(slot, state, state.words, "word"),
    ...listCandidates(slot, state, state.resultLines, "line"),
    ...listCandidates(slot, state, state.resultWords, "result"),
    ...listCandidates(slot, state, PHRASES, "phrase"),
  ];
}

/** Candidates for a path: safe task words, bare and below the working directory. Never empty. */
export function pathCandidates(slot: Slot, state: PromptState): Candidate[] {
  const names = state.words.filter((word) => isSafeName(word.text));
  if (names.length === 0) return listCandidates(slot, state, [FALLBACK_NAME], "fallback");
  const bare = wordCandidates(slot, state, names, "word");
  const directory = state.workingDirectory;
  if (directory === undefined) return bare;
  return [...bare, ...wordCandidates(slot, state, names, "cwd", `${directory}/`)];
}

/** Candidates for one word of a shell command: safe task words, with `results` safe result words too. Never empty. */
export function commandCandidates(slot: Slot, state: PromptState, results: boolean): Candidate[] {
  const names = state.words.filter((word) => isSafeName(word.text));
  const candidates = wordCandidates(slot, state, names, "word");
  if (results)
    candidates.push(...listCandidates(slot, state, state.resultWords.filter(isSafeName), "result"));
  if (candidates.length > 0) return candidates;
  return listCandidates(slot, state, [FALLBACK_NAME], "fallback");
}

/** Features of choosing a kind, or an enumerated value, at a slot. */
export function kindFeatures(slot: Slot, kind: string, state: PromptState): FeatureVector {
  const features = new FeatureVector();
  features.add(1, "kind", slot.key, kind);
  features.add(0.7, "kind first", slot.key, kind, state.firstWord);
  features.add(0.7, "kind last", slot.key, kind, state.lastTool);
  features.add(1, "kind shared", slot.family, kind);
  const share = 1 / Math.sqrt(Math.max(1, state.bag.length));
  for (const word of state.bag) features.add(share, "kind bag", slot.key, kind, word);
  return features;
}

function listCandidates(
  slot: Slot,
  state: PromptState,
  texts: readonly string[],
  kind: string,
): Candidate[] {
  return texts.map((text, i) => {
    const features = kindFeatures(slot, kind, state);
    features.add(1, "position", slot.key, kind, i);
    return { text, kind, features };
  });
}

function wordCandidates(
  slot: Slot,
  state: PromptState,
  words: readonly TaskWord[],
  kind: string,
  prefix = "",
): Candidate[] {
  return words.map((word) => {
    const features = kindFeatures(slot, kind, state);
    addWordFeatures(features, slot, kind, word, state);
    return { text: prefix + word.text, kind, features };
  });
}

/** Where the word stands, never which word it is: so that words unseen in training are copied as well. */
function addWordFeatures(
  features: FeatureVector,
  { key, family }: Slot,
  kind: string,
  word: TaskWord,
  state: PromptState,
): void {
  const shape = `${word.dotted ? "d" : ""}${word.used ? "u" : ""}`;
  features.add(1, "after", key, kind, word.previous);
  features.add(1, "after two", key, kind, word.previous, word.beforePrevious);
  features.add(0.5, "before", key, kind, word.next);
  features.add(1, "shape", key, kind, shape);
  features.add(1, "after", family, kind, word.previous);
  features.add(1, "shape", family, kind, shape);
  features.add(0.5, "used last", key, kind, word.used ? "u" : "", state.lastTool);
  features.add(1, "after first", key, kind, word.previous, state.firstWord);
}
