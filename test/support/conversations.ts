/** Request bodies of each dialect as conversations. */
import { messagesDialect } from "../../src/actors/model-server/dialects/messages.js";
import type { Conversation } from "../../src/capture/index.js";

/** Dialect → the conversation that a body means. */
export const conversationOf: Readonly<Record<"messages", (body: object) => Conversation>> = {
  messages: (body) => messagesDialect.parse(body, {}).conversation,
};
