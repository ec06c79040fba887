/** The output items of a response, and the events that stream each. */
import type { ServedReply } from "../model-request.js";
import { argumentsText, idLike } from "./openai.js";

type ItemStatus = "in_progress" | "completed" | "incomplete";
type SummaryPart = { readonly type: "summary_text"; readonly text: string };
type TextPart = {
  readonly type: "output_text";
  readonly text: string;
  readonly annotations: readonly [];
  readonly logprobs: readonly [];
};

export type ResponseItem =
  | { readonly type: "reasoning"; readonly id: string; readonly summary: readonly SummaryPart[] }
  | {
      readonly type: "message";
      readonly id: string;
      readonly status: ItemStatus;
      readonly role: "assistant";
      readonly content: readonly TextPart[];
    }
  | {
      readonly type: "function_call";
      readonly id: string;
      readonly status: ItemStatus;
      readonly call_id: string;
      readonly name: string;
      readonly arguments: string;
    };

export type ItemEvent = readonly [type: string, fields: object];

/** Reasoning, then text, then tool calls; what is empty has no item. */
export function responseItems(reply: ServedReply): ResponseItem[] {
  const { messageId, reasoning, text, toolCalls, finishReason } = reply;
  const items: ResponseItem[] = [];
  if (reasoning !== "")
    items.push({
      type: "reasoning",
      id: idLike(messageId, "rs_"),
      summary: [{ type: "summary_text", text: reasoning }],
    });
  if (text !== "")
    items.push({
      type: "message",
      id: messageId,
      status: finishReason === "length" ? "incomplete" : "completed",
      role: "assistant",
      content: [textPart(text)],
    });
  for (const call of toolCalls)
    items.push({
      type: "function_call",
      id: idLike(call.id, "fc_"),
      status: "completed",
      call_id: call.id,
      name: call.name,
      arguments: argumentsText(call),
    });
  return items;
}

export function itemEvents(item: ResponseItem, outputIndex: number): ItemEvent[] {
  const at = { output_index: outputIndex, item_id: item.id };
  return [
    ["response.output_item.added", { output_index: outputIndex, item: opened(item) }],
    ...contentEvents(item, at),
    ["response.output_item.done", { output_index: outputIndex, item }],
  ];
}

function textPart(text: string): TextPart {
  return { type: "output_text", text, annotations: [], logprobs: [] };
}

function opened(item: ResponseItem): object {
  switch (item.type) {
    case "reasoning":
      return { ...item, summary: [] };
    case "message":
      return { ...item, status: "in_progress", content: [] };
    case "function_call":
      return { ...item, status: "in_progress", arguments: "" };
  }
}

function contentEvents(item: ResponseItem, at: object): ItemEvent[] {
  switch (item.type) {
    case "reasoning":
      return item.summary.flatMap((part, index) => {
        const where = { ...at, summary_index: index };
        const name = "response.reasoning_summary";
        return [
          [`${name}_part.added`, { ...where, part: { ...part, text: "" } }],
          [`${name}_text.delta`, { ...where, delta: part.text }],
          [`${name}_text.done`, { ...where, text: part.text }],
          [`${name}_part.done`, { ...where, part }],
        ] satisfies ItemEvent[];
      });
    case "message":
      return item.content.flatMap((part, index) => {
        const where = { ...at, content_index: index };
        return [
          ["response.content_part.added", { ...where, part: textPart("") }],
          ["response.output_text.delta", { ...where, delta: part.text, logprobs: [] }],
          ["response.output_text.done", { ...where, text: part.text, logprobs: [] }],
          ["response.content_part.done", { ...where, part }],
        ] satisfies ItemEvent[];
      });
    case "function_call": {
      const { arguments: text, name } = item;
      return [
        ["response.function_call_arguments.delta", { ...at, delta: text }],
        ["response.function_call_arguments.done", { ...at, name, arguments: text }],
      ];
    }
  }
}
