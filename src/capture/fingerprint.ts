/**
 * The digest of what a call saw before it answered.
 *
 * Assistant turns enter with ids, names, text and arguments as the harness echoes them. A harness rewrites arguments
 * once, between the served answer and its first echo; after that the turn comes back unchanged. So the digest of a
 * prefix compares echo with echo and needs no rewrite rule; only the newest turn, never echoed before, is compared
 * with what was served (echo.ts), and each earlier turn was when its child was resolved. An edit of any earlier turn
 * changes the digest. Reasoning is left out: some harnesses drop it, and the exact ids are supplied anyway.
 */
import { createHash, type Hash } from "node:crypto";
import { canonicalJson } from "./canonical-json.js";
import type { Conversation, ConversationMessage } from "./conversation.js";

/** Version of the normalisation behind `contextDigest`. Digests of unlike versions are never compared. */
export const FINGERPRINT_VERSION = 1;

/** What of a conversation was hashed: its first messages, in the order in which canonical JSON has them. */
interface HashedMessages {
  readonly count: number;
  readonly hash: Hash;
}

/** One call is asked for two digests of one conversation, before its newest turns and after them. */
const hashed = new WeakMap<Conversation, HashedMessages>();
/** What follows its messages in canonical JSON. */
const rests = new WeakMap<Conversation, string>();

/**
 * sha256, hex, over the canonical JSON of model, system, tools and the first `messageCount` messages, normalised.
 * Contract: the conversation does not change. A further digest of it costs what its further messages cost.
 */
export function contextDigest(conversation: Conversation, messageCount: number): string {
  const { hash } = hashMessages(conversation, messageCount);
  return hash.copy().update(restOf(conversation)).digest("hex");
}

function restOf(conversation: Conversation): string {
  const known = rests.get(conversation);
  if (known !== undefined) return known;
  const { model, system, tools } = conversation;
  const others = canonicalJson({
    version: FINGERPRINT_VERSION,
    model,
    system,
    tools: tools.map((tool) => [tool.name, tool.description, tool.parameters]),
  });
  const rest = `],${others.slice(1)}`; // "messages" is the first key in canonical order.
  rests.set(conversation, rest);
  return rest;
}

function hashMessages(conversation: Conversation, messageCount: number): HashedMessages {
  const known = hashed.get(conversation);
  const start = known !== undefined && known.count <= messageCount ? known : undefined;
  const hash = start?.hash.copy() ?? createHash("sha256").update('{"messages":[');
  const from = start?.count ?? 0;
  conversation.messages.slice(from, messageCount).forEach((message, index) => {
    if (from + index > 0) hash.update(",");
    hash.update(canonicalJson(messageParts(message)));
  });
  const now = { count: messageCount, hash };
  hashed.set(conversation, now);
  return now;
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
