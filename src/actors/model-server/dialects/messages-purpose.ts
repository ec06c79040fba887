import type { IncomingHttpHeaders } from "node:http";
import type { CallPurpose } from "../../../capture/index.js";
import { callPurpose } from "./call-purpose.js";
import type { MessagesBody } from "./messages-body.js";

/** The purpose of a Messages call. @throws RequestError 400 when the purpose header names none. */
export function messagesPurpose(
  request: MessagesBody,
  rawSystem: string,
  headers: IncomingHttpHeaders,
): CallPurpose {
  const shape = {
    toolCount: request.tools?.length ?? 0,
    systemStart: rawSystem.split("\n", 1)[0] ?? "",
    lastUserText: lastUserText(request),
    asksTitle: asksTitle(request["output_config"]),
  };
  return callPurpose(shape, headers);
}

/** Of the newest message that is no system message: those may follow the user's. */
function lastUserText(request: MessagesBody): string {
  const last = request.messages.findLast((message) => message.role !== "system");
  if (last?.role !== "user") return "";
  const text = typeof last.content === "string" ? last.content : last.content.at(-1)?.["text"];
  return typeof text === "string" ? text : "";
}

/** `output_config.format.schema.properties` has a title. */
function asksTitle(outputConfig: unknown): boolean {
  const path = ["format", "schema", "properties", "title"];
  let value = outputConfig;
  for (const key of path) {
    if (typeof value !== "object" || value === null) return false;
    value = (value as Record<string, unknown>)[key];
  }
  return value !== undefined;
}
