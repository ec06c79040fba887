import type { IncomingHttpHeaders } from "node:http";
import type { CallPurpose } from "../model-request.js";
import type { MessagesBody } from "./messages-body.js";

const COMPACTION_INSTRUCTION = "Respond with TEXT ONLY";

/** What Claude Code makes the call for. A label for people and delivery modes; it decides nothing trainable. */
export function callPurpose(
  request: MessagesBody,
  rawSystem: string,
  headers: IncomingHttpHeaders,
): CallPurpose {
  const billing = rawSystem.split("\n", 1)[0] ?? "";
  if (headers["x-claude-code-agent-id"] !== undefined) return "subagent";
  if (/^x-anthropic-billing-header:.*cc_is_subagent=true/.test(billing)) return "subagent";
  if (endsWithCompaction(request)) return "compaction";
  return request.tools?.length === 0 && "output_config" in request ? "title" : "main";
}

/** The instruction is a block of the newest user message, which system messages may follow. */
function endsWithCompaction(request: MessagesBody): boolean {
  const last = request.messages.findLast((message) => message.role !== "system");
  if (last?.role !== "user") return false;
  const block = typeof last.content === "string" ? last.content : last.content.at(-1)?.["text"];
  return typeof block === "string" && block.includes(COMPACTION_INSTRUCTION);
}
