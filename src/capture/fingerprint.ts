/**
 * The digest of what a call saw before it answered.
 *
 * Assistant turns enter with ids, names, text and arguments as the harness echoes them. A harness rewrites arguments
 * once, between the served answer and its first echo; after that the turn comes back unchanged. So the digest of a
 * prefix compares echo with echo and needs no rewrite rule; only the newest turn, never echoed before, is compared
 * with what was served (echo.ts), and each earlier turn was when its child was resolved. An edit of any earlier turn
 * changes the digest. Reasoning is left out: some harnesses drop it, and the exact ids are supplied anyway.
 */
import { createHash } from "node:crypto";
import { canonicalJson } from "./canonical-json.js";
import type { Conversation, ConversationMessage } from "./conversation.js";

/** Version of the normalisation behind `contextDigest`. Digests of unlike versions are never compared. */
export const FINGERPRINT_VERSION = 1;

/** sha256, hex, over model, system, tools and the first `messageCount` messages, normalised. */
export function contextDigest(conversation: Conversation, messageCount: number): string {
  const { model, system, tools, messages } = conversation;
  const context = {
    version: FINGERPRINT_VERSION,
    model,
    system,
    tools: tools.map((tool) => [tool.name, tool.description, tool.parameters]),
    messages: messages.slice(0, messageCount).map(messageParts),
  };
  return createHash("sha256").update(canonicalJson(context)).digest("hex");
}

/** A text that is only blanks is dropped by harnesses and counts as none. Any other text is kept as it is. */
export function normalizeAssistantText(text: string): string {
  return text.trim() === "" ? "" : text;
}

function messageParts(message: ConversationMessage): readonly unknown[] {
  switch (message.role) {
    case "assistant": {
      const calls = message.toolCalls.map((call) => [call.id, call.name, call.arguments]);
      return ["assistant", normalizeAssistantText(message.text), calls];
    }
    case "tool":
      return ["tool", message.toolCallId, message.text, message.isError];
    case "system":
    case "user":
      return [message.role, message.text];
  }
}
