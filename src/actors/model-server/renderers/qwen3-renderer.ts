/**
 * Qwen3's chat template over its vocabulary, with `enable_thinking: false`.
 *
 * It is not a general template engine: it knows which special tokens this template writes.
 *
 * Q1. A special token in the ids was written by the template. Special-token text in a system prompt, a turn, a tool
 *     result, a tool's description or its arguments stays plain text.
 * Q2. Where no content spells a special token, the ids are those of the template's own text, encoded whole.
 * Q3. A continuation is cut out of ids, at the end-of-turn id, never out of text.
 */
import { Template } from "@huggingface/jinja";
import type { Conversation, ConversationMessage } from "../../../capture/index.js";
import type { Vocabulary } from "../../../embedded-policy/index.js";
import { type TemplateMessage, templateJson, templateMessage, templateTool } from "./normalise.js";
import { betweenLineBreaks, type Piece, Placeholders } from "./placeholders.js";
import type { ParsedTurn, Renderer } from "./renderer.js";
import { parseQwen3Turn, type TurnMarks } from "./tool-call-parser.js";

/** The special tokens that the template writes. */
const TEMPLATE_SPECIALS = [
  "<|im_start|>",
  "<|im_end|>",
  "<tool_call>",
  "</tool_call>",
  "<tool_response>",
  "</tool_response>",
  "<think>",
  "</think>",
] as const;

export class Qwen3Renderer implements Renderer {
  readonly #vocabulary: Vocabulary;
  readonly #template: Template;
  readonly #guards: (text: string) => boolean;
  readonly #specials: ReadonlyMap<string, number>;
  readonly #specialPattern: RegExp;
  readonly #marks: TurnMarks;

  /**
   * @param chatTemplate Jinja source from the tokenizer's configuration.
   * @param guards Which strings are kept out of the template, beside those that would break Q1 or Q2.
   * @throws RangeError when the template writes a special token that this renderer does not know.
   */
  constructor(
    vocabulary: Vocabulary,
    chatTemplate: string,
    guards: (text: string) => boolean = () => false,
  ) {
    this.#vocabulary = vocabulary;
    this.#template = new Template(chatTemplate);
    this.#guards = (text) => guards(text) || vocabulary.spellsSpecial(text) || hasBlankEdges(text);
    this.#specialPattern = new RegExp(`(${TEMPLATE_SPECIALS.map(escapeRegExp).join("|")})`);
    if (
      vocabulary.spellsSpecial(chatTemplate.split(this.#specialPattern).filter(isBetween).join(" "))
    )
      throw new RangeError("the chat template writes special tokens unknown to Qwen3Renderer");
    this.#specials = new Map(TEMPLATE_SPECIALS.map((text) => [text, vocabulary.specialId(text)]));
    this.#marks = {
      endOfTurn: vocabulary.specialId("<|im_end|>"),
      toolCallStart: vocabulary.specialId("<tool_call>"),
      toolCallEnd: vocabulary.specialId("</tool_call>"),
      thinkStart: vocabulary.specialId("<think>"),
      thinkEnd: vocabulary.specialId("</think>"),
    };
  }

  get vocabularySize(): number {
    return this.#vocabulary.size;
  }

  promptIds(conversation: Conversation): Promise<Int32Array> {
    const { system, tools, messages } = conversation;
    const all: readonly ConversationMessage[] =
      system === "" ? messages : [{ role: "system", text: system }, ...messages];
    const placeholders = new Placeholders();
    const text = this.#render(
      all.map((message) =>
        templateMessage(message, (content) => this.#guard(content, placeholders)),
      ),
      tools.map((tool) => this.#guardTool(templateTool(tool), placeholders)),
    );
    return this.#encode(text, placeholders);
  }

  async continuationIds(appended: readonly ConversationMessage[]): Promise<Int32Array> {
    const placeholders = new Placeholders();
    const lead: readonly ConversationMessage[] = [
      { role: "user", text: "x" },
      { role: "assistant", text: "x", toolCalls: [] },
    ];
    const messages = [...lead, ...appended].map((message) =>
      templateMessage(message, (content) => this.#guard(content, placeholders)),
    );
    const ids = await this.#encode(this.#render(messages, []), placeholders);
    const userEnd = ids.indexOf(this.#marks.endOfTurn);
    return ids.slice(ids.indexOf(this.#marks.endOfTurn, userEnd + 1) + 1); // Q3
  }

  endsTurn(ids: Int32Array): boolean {
    return ids.at(-1) === this.#marks.endOfTurn;
  }

  parseTurn(ids: ArrayLike<number>, { toolCalls } = { toolCalls: true }): ParsedTurn {
    return parseQwen3Turn(Int32Array.from(ids), this.#marks, this.#vocabulary, toolCalls);
  }

  decode(ids: ArrayLike<number>): string {
    return this.#vocabulary.decode(Int32Array.from(ids));
  }

  #render(messages: readonly TemplateMessage[], tools: readonly unknown[]): string {
    return this.#template.render({
      messages,
      tools: tools.length > 0 ? tools : undefined,
      add_generation_prompt: true,
      enable_thinking: false,
    });
  }

  #guard(text: string, placeholders: Placeholders): string {
    return this.#guards(text) ? placeholders.replace(text) : text;
  }

  #guardTool(tool: unknown, placeholders: Placeholders): unknown {
    const text = templateJson(tool);
    return this.#guards(text) ? placeholders.replaceJson(text) : tool;
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
        const special = this.#specials.get(part);
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

function isBetween(_part: string, index: number): boolean {
  return index % 2 === 0;
}

/**
 * True when a blank other than a line break begins or ends the text. The template strips line breaks from assistant
 * turns, but this Jinja strips every blank there, unlike Python's.
 */
function hasBlankEdges(text: string): boolean {
  const [start, end] = betweenLineBreaks(text);
  return /^\s/.test(text.slice(start, start + 1)) || /\s$/.test(text.slice(end - 1, end));
}

function escapeRegExp(text: string): string {
  return text.replace(/[|\\{}()[\]^$+*?.]/g, "\\$&");
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
