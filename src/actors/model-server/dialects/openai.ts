/** What Chat Completions and Responses share: errors, purposes, ids. */
import type { IncomingHttpHeaders } from "node:http";
import { z } from "zod";
import type { CallPurpose, Conversation, ServedToolCall } from "../../../capture/index.js";
import type { ToolChoice } from "../model-request.js";
import type { RequestError } from "../request-error.js";
import { callPurpose } from "./call-purpose.js";

export const OPENAI_TOOL_CALL_PREFIX = "call_";

/** As both dialects describe a function. */
export const FunctionSpecification = z.looseObject({
  name: z.string().min(1),
  description: z.string().nullish(),
  parameters: z.looseObject({}).nullish(),
});

/** The schema of a function without one. */
export const NO_PARAMETERS = { type: "object", properties: {} } as const;

/** `tool_choice` of both dialects; Chat Completions has an object's details below its type. */
export function openAiToolChoice(value: unknown): ToolChoice {
  if (value === "none" || value === "required") return value;
  const { type, ...given } = objectOf(value);
  const { mode, name } = { ...given, ...objectOf(given[String(type)]) };
  if (type === "allowed_tools") return mode === "required" ? "required" : "auto";
  return type === "function" && typeof name === "string" ? { name } : "auto";
}

function objectOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
}

/** OpenAI has no 529; its clients know 503. */
export function openAiStatus(error: RequestError): number {
  return error.status === 529 ? 503 : error.status;
}

export function openAiError(error: RequestError): {
  message: string;
  type: string;
  param: null;
  code: string;
} {
  const status = openAiStatus(error);
  const [type, code] =
    status >= 500
      ? ["server_error", "server_error"]
      : status === 403
        ? ["permission_error", "permission_denied"]
        : ["invalid_request_error", status === 404 ? "not_found" : "invalid_request"];
  return { message: error.message, type, param: null, code };
}

/** Tool arguments as JSON text. */
export function argumentsText(call: ServedToolCall): string {
  return JSON.stringify(call.arguments);
}

/** The same call under another prefix: `msg_1a` with `resp_` is `resp_1a`. */
export function idLike(id: string, prefix: string): string {
  return prefix + id.slice(id.indexOf("_") + 1);
}

/** The purpose of a call, which only the newest turn of the user and the headers tell. */
export function openAiPurpose(
  conversation: Conversation,
  toolCount: number,
  headers: IncomingHttpHeaders,
): CallPurpose {
  const last = conversation.messages.at(-1);
  const lastUserText = last?.role === "user" ? last.text : "";
  return callPurpose({ toolCount, systemStart: "", lastUserText, asksTitle: false }, headers);
}
