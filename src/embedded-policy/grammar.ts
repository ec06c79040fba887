/**
 * Compiles the tools of a prompt into choice nodes: an answer, or one call of one tool with its required arguments.
 *
 * Nodes are built when they are reached; nothing is cached.
 *
 * G1. Every complete path is an answer, or `<tool_call>` with JSON that parses, names an offered tool and gives each
 *     required argument a value of its schema's type. Any tool list compiles.
 * G2. A leaf ends where no canonical token crosses into the next one, so that most completions are canonical.
 * G3. A shell command is `ls`, `cat NAME` or `echo NAME > NAME`; a path is NAME or the working directory, `/`, NAME.
 *     NAME has only `[A-Za-z0-9._-]`, no `..`, no leading `-`.
 * G4. Leaf texts are printable ASCII; other characters of names and values are JSON escapes.
 */
import { CALL_END_MARK, CALL_MARK, END_MARK } from "./bpe.js";
import {
  commandCandidates,
  kindFeatures,
  pathCandidates,
  type Slot,
  textCandidates,
} from "./candidates.js";
import { type Candidate, type ChoiceNode, kindPriors, type Leaf } from "./choice-nodes.js";
import { FeatureVector } from "./features.js";
import type { PromptState } from "./prompt-state.js";
import { choiceValues, fixedJson, schemaType, toAsciiJson } from "./schema-values.js";
import type { Tool, ToolArgument } from "./tools.js";

/** The first node of a completion for this state. */
export function rootNode(state: PromptState): ChoiceNode {
  const calls = state.tools.map((tool): Leaf => {
    const features = new FeatureVector();
    addActionFeatures(features, tool.name, state);
    const text = `${CALL_MARK}\n{"name": ${toAsciiJson(tool.name)}, "arguments": ${opening(tool, 0)}`;
    return { text, features, prior: 0, next: argumentAfter(tool, -1, state) };
  });
  const answers = textCandidates({ key: "ANSWER", family: "answer" }, state);
  const priors = kindPriors(answers);
  const kinds = new Set(answers.map((answer) => answer.kind)).size;
  const replies = answers.map((answer, i): Leaf => {
    addActionFeatures(answer.features, "ANSWER", state);
    // All answers together weigh as much as one tool.
    const prior = (priors[i] ?? 0) - Math.log(kinds);
    return { text: answer.text + END_MARK, features: answer.features, prior, next: undefined };
  });
  return { leaves: [...calls, ...replies] };
}

function addActionFeatures(features: FeatureVector, action: string, state: PromptState): void {
  features.add(1, "action", action);
  features.add(1, "action turn", action, state.turn);
  features.add(1, "action last", action, state.lastTool);
  features.add(0.5, "action first", action, state.firstWord);
  features.add(1, "action first last", action, state.firstWord, state.lastTool);
  const share = 1 / Math.sqrt(Math.max(1, state.bag.length));
  for (const word of state.bag) {
    features.add(share, "action bag", action, word);
    features.add(1.5 * share, "action bag last", action, word, state.lastTool);
  }
}

/** What stands between a value and the next one: ends before the blank, which canonical tokens join to the value (G2). */
function opening(tool: Tool, index: number): string {
  const argument = tool.required[index];
  if (!argument) return `${index === 0 ? "{" : ""}}}\n${CALL_END_MARK}${END_MARK}`;
  return `${index === 0 ? "{" : ", "}${toAsciiJson(argument.name)}:`;
}

function argumentAfter(tool: Tool, index: number, state: PromptState): Leaf["next"] {
  const argument = tool.required[index + 1];
  return argument && (() => argumentNode(tool, index + 1, argument, state));
}

function argumentNode(
  tool: Tool,
  index: number,
  argument: ToolArgument,
  state: PromptState,
): ChoiceNode {
  const key = `${tool.name}.${index}`;
  const close = opening(tool, index + 1);
  const next = argumentAfter(tool, index, state);
  const values = choiceValues(argument.schema);
  if (values) {
    const slot = { key, family: "choice" };
    const leaves = values.map((value): Leaf => {
      const features = kindFeatures(slot, value, state);
      return { text: ` ${value}${close}`, features, prior: 0, next };
    });
    return { leaves };
  }
  if (schemaType(argument.schema) !== "string") {
    const features = kindFeatures({ key, family: "fixed" }, "fixed", state);
    return {
      leaves: [{ text: ` ${fixedJson(argument.schema)}${close}`, features, prior: 0, next }],
    };
  }
  if (/^(command|cmd)$/.test(argument.name)) return commandNode(key, `"${close}`, next, state);
  const isPath = /path|file/i.test(argument.name);
  const slot = { key, family: isPath ? "path" : "text" };
  const candidates = isPath ? pathCandidates(slot, state) : textCandidates(slot, state);
  return stringNode(candidates, ' "', `"${close}`, next);
}

function stringNode(
  candidates: readonly Candidate[],
  before: string,
  after: string,
  next: Leaf["next"],
): ChoiceNode {
  const priors = kindPriors(candidates);
  const leaves = candidates.map(({ text, features }, i): Leaf => {
    const escaped = toAsciiJson(text).slice(1, -1);
    return { text: before + escaped + after, features, prior: priors[i] ?? 0, next };
  });
  return { leaves };
}

/** The shell grammar (G3). `close` ends the string, the argument and what follows. */
function commandNode(
  key: string,
  close: string,
  next: Leaf["next"],
  state: PromptState,
): ChoiceNode {
  const slot: Slot = { key, family: "command" };
  const fileSlot = (part: string): Slot => ({ key: `${key}.${part}`, family: "path" });
  const target = () =>
    stringNode(commandCandidates(fileSlot("target"), state, false), " ", close, next);
  const word = () => {
    const wordSlot = { key: `${key}.echo`, family: "text" };
    return stringNode(commandCandidates(wordSlot, state, true), " ", " >", target);
  };
  const file = () => stringNode(commandCandidates(fileSlot("cat"), state, false), " ", close, next);
  const leaf = (name: string, text: string, after: Leaf["next"]): Leaf => {
    return { text, features: kindFeatures(slot, name, state), prior: 0, next: after };
  };
  return {
    leaves: [
      leaf("ls", ` "ls${close}`, next),
      leaf("cat", ' "cat', file),
      leaf("echo", ' "echo', word),
    ],
  };
}
