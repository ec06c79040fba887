/**
 * A model's own chat template over its own vocabulary.
 *
 * Q1. A special token in the ids was written by the template. Special-token text in a system prompt, a turn, a tool
 *     result, a tool's description or its arguments stays plain text, unless `contentSpecials` is "special".
 * Q2. Where no content spells a special token, the ids are those of the template's own text, encoded whole.
 * Q3. A continuation is cut out of ids, at the end-of-turn id, never out of text.
 * Q4. A template that drops what the harness says is refused: its prompt is not what was asked. (Of the policy's own
 *     turns it may drop text; such a prompt continues nothing.)
 */
import { Template } from "@huggingface/jinja";
import type {
  Conversation,
  ConversationMessage,
  ToolSpecification,
} from "../../../capture/index.js";
import type { Vocabulary } from "../../../embedded-policy/index.js";
import { FAMILIES, type Family, type FamilyName } from "./families.js";
import { KeptIds } from "./kept-ids.js";
import {
  type Guards,
  mapStrings,
  type TemplateMessage,
  templateJson,
  templateMessage,
  templateTool,
} from "./normalise.js";
import { type Piece, Placeholders, withoutEdges } from "./placeholders.js";
import { splitReasoning } from "./reasoning.js";
import type { ParsedTurn, ParseTurnOptions, Renderer } from "./renderer.js";
import { escapeRegExp, joined, Segmenter } from "./segments.js";

export interface ChatTemplateOptions {
  readonly family: FamilyName;
  /** Jinja source. */
  readonly chatTemplate: string;
  /** Further variables of the template, e.g. `enable_thinking`, `bos_token`. */
  readonly variables?: Readonly<Record<string, unknown>>;
  /**
   * What special-token text in a content becomes. "special" is what inference servers do with messages: whoever
   * writes a tool result can then end a turn. @default "text"
   */
  readonly contentSpecials?: "text" | "special";
  /** Which strings are kept out of the template, beside those that would break Q1 or Q2. For tests. */
  readonly guards?: (text: string) => boolean;
}

const LEAD: readonly ConversationMessage[] = [
  { role: "user", text: "x" },
  { role: "assistant", text: "x", toolCalls: [] },
];

export class ChatTemplateRenderer implements Renderer {
  readonly stopIds: readonly number[];
  readonly #vocabulary: Vocabulary;
  readonly #family: Family;
  readonly #template: Template;
  readonly #variables: Readonly<Record<string, unknown>>;
  readonly #isSpecial: (text: string) => boolean;
  readonly #isEdge: (character: string) => boolean;
  readonly #specialPattern: RegExp;
  readonly #endOfTurn: number;
  readonly #segmenter: Segmenter;
  readonly #opensReasoning: boolean;
  readonly #quotesToolText: boolean;
  /** End-of-turn ids up to the end of the lead. */
  #leadTurns: Promise<number> | undefined;
  readonly #kept = new KeptIds();

  /** @throws RangeError when the vocabulary has no end-of-turn token of the family; Error when the template is wrong. */
  constructor(vocabulary: Vocabulary, options: ChatTemplateOptions) {
    this.#vocabulary = vocabulary;
    this.#family = FAMILIES[options.family];
    this.#template = new Template(options.chatTemplate);
    this.#variables = options.variables ?? {};
    const { contentSpecials = "text", guards = () => false } = options;
    this.#isSpecial = (text) =>
      guards(text) || (contentSpecials === "text" && vocabulary.spellsSpecial(text));
    // Longest first, so that none is taken for another that it begins with.
    const specials = [...vocabulary.specials.keys()].sort((a, b) => b.length - a.length);
    this.#specialPattern = new RegExp(`(${specials.map(escapeRegExp).join("|")})`);
    const { endOfTurn, otherStops, reasoning, toolFormat, strips } = this.#family;
    this.#isEdge = strips === "blanks" ? isBlank : (character) => character === "\n";
    this.#endOfTurn = vocabulary.specialId(endOfTurn);
    const others = otherStops.flatMap((stop) => vocabulary.specials.get(stop) ?? []);
    this.stopIds = [this.#endOfTurn, ...others];
    const marks = [reasoning.open, reasoning.close, ...toolFormat.marks];
    this.#segmenter = new Segmenter(vocabulary, marks);
    const opening = this.#render([{ role: "user", content: "x" }], [], true);
    this.#opensReasoning =
      opening.lastIndexOf(reasoning.open) > opening.lastIndexOf(reasoning.close);
    this.#quotesToolText = this.#quotes();
  }

  get vocabularySize(): number {
    return this.#vocabulary.size;
  }

  promptIds({ system, tools, messages }: Conversation): Promise<Int32Array> {
    return this.#ids(
      system === "" ? messages : [{ role: "system", text: system }, ...messages],
      tools,
      true,
    );
  }

  async continuationIds(appended: readonly ConversationMessage[]): Promise<Int32Array> {
    this.#leadTurns ??= this.#ids(LEAD, [], false).then((ids) => this.#countTurns(ids));
    const [leadTurns, ids] = await Promise.all([
      this.#leadTurns,
      this.#ids([...LEAD, ...appended], [], true),
    ]);
    let cut = 0;
    for (let turn = 0; turn < leadTurns; turn++) cut = ids.indexOf(this.#endOfTurn, cut) + 1;
    if (leadTurns === 0 || cut === 0)
      throw new Error("the chat template does not end an assistant turn with an end-of-turn token");
    return ids.slice(cut); // Q3
  }

  endsTurn(ids: Int32Array): boolean {
    return ids.at(-1) === this.#endOfTurn;
  }

  parseTurn(ids: ArrayLike<number>, options: ParseTurnOptions = {}): ParsedTurn {
    const { tools = [], toolCalls: readsCalls = true } = options;
    const all = Int32Array.from(ids);
    const body = this.stopIds.includes(all.at(-1) ?? -1) ? all.subarray(0, -1) : all;
    const { reasoning: marks, toolFormat } = this.#family;
    const segments = this.#segmenter.segments(body);
    const { reasoning, rest } = splitReasoning(segments, marks, this.#opensReasoning);
    if (!readsCalls) return { reasoning, text: joined(rest), toolCalls: [] };
    const { text, toolCalls, malformed } = toolFormat.parse(rest, tools);
    const turn = { reasoning, text, toolCalls };
    return malformed === 0 ? turn : { ...turn, malformedToolCalls: malformed };
  }

  decode(ids: ArrayLike<number>): string {
    return this.#vocabulary.decode(Int32Array.from(ids));
  }

  #countTurns(ids: Int32Array): number {
    return ids.reduce((count, id) => (id === this.#endOfTurn ? count + 1 : count), 0);
  }

  async #ids(
    messages: readonly ConversationMessage[],
    tools: readonly ToolSpecification[],
    addGenerationPrompt: boolean,
  ): Promise<Int32Array> {
    const placeholders = new Placeholders(this.#isEdge);
    const guards = this.#guardsOf(placeholders);
    const { argumentsForm } = this.#family;
    const given = messages.map((message) => templateMessage(message, guards, argumentsForm));
    const offered = tools.map((tool) => templateTool(tool, guards));
    const render = async () => {
      const text = this.#render(given, offered, addGenerationPrompt);
      refuseDropped(given, text); // Q4
      return this.#encode(text, placeholders);
    };
    if (!isShort(given, tools) || !placeholders.isEmpty) return render();
    return this.#kept.of(JSON.stringify([given, addGenerationPrompt]), render);
  }

  #guardsOf(placeholders: Placeholders): Guards {
    const guardText = (text: string) =>
      this.#isSpecial(text) || this.#losesBlanks(text) ? placeholders.replace(text) : text;
    const guardQuoted = (text: string) =>
      this.#isSpecial(text) ? placeholders.replaceInValue(text) : text;
    return {
      text: guardText,
      toolText: this.#quotesToolText ? guardQuoted : guardText,
      value: (value) =>
        this.#isSpecial(templateJson(value)) ? mapStrings(value, guardQuoted) : value,
    };
  }

  /** True when this Jinja would strip more of the text's ends than Python's. */
  #losesBlanks(text: string): boolean {
    const [start, end] = withoutEdges(text, this.#isEdge);
    return (
      isBlank(text.slice(start, start + 1)) || isBlank(text.slice(Math.max(start, end - 1), end))
    );
  }

  /** True when the template writes tool results through `tojson`. */
  #quotes(): boolean {
    const guards = { text: String, toolText: String, value: (value: unknown) => value };
    const result = { role: "tool", toolCallId: "x", text: '"', isError: false } as const;
    const messages = [...LEAD, result].map((message) =>
      templateMessage(message, guards, this.#family.argumentsForm),
    );
    return this.#render(messages, [], true).includes('\\"');
  }

  #render(
    messages: readonly TemplateMessage[],
    tools: readonly unknown[],
    addGenerationPrompt: boolean,
  ): string {
    return this.#template.render({
      ...this.#variables,
      messages,
      tools: tools.length > 0 ? tools : undefined,
      add_generation_prompt: addGenerationPrompt,
    });
  }

  async #encode(rendered: string, placeholders: Placeholders): Promise<Int32Array> {
    if (placeholders.isEmpty) return this.#vocabulary.encode(rendered); // Q2
    const runs = this.#runs(placeholders.split(rendered));
    const ids = await Promise.all(
      runs.map(async (run) =>
        typeof run === "number" ? Int32Array.of(run) : this.#vocabulary.encodeOrdinary(run),
      ),
    );
    return concatenate(ids);
  }

  /**
   * Special ids of the template, and the plain text between them. Content is joined to the template text beside it
   * before it is encoded, as the tokenizer itself would see it: its merges cross that border, but never a special.
   */
  #runs(pieces: readonly Piece[]): (number | string)[] {
    const runs: (number | string)[] = [];
    let text = "";
    for (const piece of pieces) {
      if (piece.isContent) {
        text += piece.text; // Q1
        continue;
      }
      for (const part of piece.text.split(this.#specialPattern)) {
        const special = this.#vocabulary.specials.get(part);
        if (special === undefined) {
          text += part;
          continue;
        }
        if (text !== "") runs.push(text);
        runs.push(special);
        text = "";
      }
    }
    if (text !== "") runs.push(text);
    return runs;
  }
}

/** Worth a look among the kept: long ones seldom come again, and tools make a prompt long. */
function isShort(
  messages: readonly TemplateMessage[],
  tools: readonly ToolSpecification[],
): boolean {
  const contents = messages.reduce((sum, { content }) => sum + content.length, 0);
  return tools.length === 0 && contents <= 2048;
}

function refuseDropped(messages: readonly TemplateMessage[], rendered: string): void {
  let from = 0;
  for (const { role, content } of messages) {
    if (role === "assistant") continue;
    const text = content.trim();
    const at = indexOfText(rendered, text, from);
    if (at < 0) throw new Error(`the chat template drops or rewrites a ${role} message`);
    from = Math.max(from, at);
  }
}

/** Where the text stands, as it is or through `tojson`; -1 when nowhere. Looks behind `from` first: messages have an order. */
function indexOfText(rendered: string, text: string, from: number): number {
  const behind = rendered.indexOf(text, from);
  const at = behind >= 0 ? behind : rendered.indexOf(text);
  return at >= 0 ? at : rendered.indexOf(templateJson(text).slice(1, -1));
}

function isBlank(character: string): boolean {
  return /^\s$/.test(character);
}

function concatenate(parts: readonly Int32Array[]): Int32Array {
  const all = new Int32Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}
