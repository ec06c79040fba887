/** What differs between model families beside their template and vocabulary. To add one: a `Family`, named here. */
import type { ReasoningMarks } from "./reasoning.js";
import { hermesFormat } from "./tool-formats/hermes.js";
import { llama3JsonFormat } from "./tool-formats/llama3-json.js";
import { qwen3CoderFormat } from "./tool-formats/qwen3-coder.js";
import type { ToolFormat } from "./tool-formats/tool-format.js";

export const FAMILY_NAMES = ["qwen3", "qwen3_coder", "llama3_json"] as const;
export type FamilyName = (typeof FAMILY_NAMES)[number];

export interface Family {
  /** The special token that ends a turn, and after which the template goes on. */
  readonly endOfTurn: string;
  /** Other special tokens with which a generation may end. Nothing continues such a turn. */
  readonly otherStops: readonly string[];
  readonly reasoning: ReasoningMarks;
  readonly toolFormat: ToolFormat;
  /** How the template wants a call's arguments: their JSON text, or the mapping itself. */
  readonly argumentsForm: "json" | "mapping";
  /** What the template strips from the ends of contents. Python's `strip("\n")` strips less than this Jinja's. */
  readonly strips: "line_breaks" | "blanks";
}

const THINK: ReasoningMarks = { open: "<think>", close: "</think>" };

const QWEN = {
  endOfTurn: "<|im_end|>",
  otherStops: ["<|endoftext|>"],
  reasoning: THINK,
} as const;

export const FAMILIES: Readonly<Record<FamilyName, Family>> = {
  qwen3: { ...QWEN, toolFormat: hermesFormat, argumentsForm: "json", strips: "line_breaks" },
  qwen3_coder: {
    ...QWEN,
    toolFormat: qwen3CoderFormat,
    argumentsForm: "mapping",
    strips: "blanks",
  },
  llama3_json: {
    endOfTurn: "<|eot_id|>",
    otherStops: ["<|eom_id|>", "<|end_of_text|>"],
    reasoning: THINK,
    toolFormat: llama3JsonFormat,
    argumentsForm: "mapping",
    strips: "blanks",
  },
};

/** The family that a template is written for; undefined when it is none that we know. */
export function familyOfTemplate(chatTemplate: string): FamilyName | undefined {
  if (chatTemplate.includes("<function=")) return "qwen3_coder";
  if (chatTemplate.includes("<|im_start|>")) return "qwen3";
  return chatTemplate.includes("<|start_header_id|>") ? "llama3_json" : undefined;
}
