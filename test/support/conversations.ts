/** Request bodies of each dialect as conversations. */
import { chatDialect } from "../../src/actors/model-server/dialects/chat.js";
import type { Dialect } from "../../src/actors/model-server/dialects/dialect.js";
import { messagesDialect } from "../../src/actors/model-server/dialects/messages.js";
import { responsesDialect } from "../../src/actors/model-server/dialects/responses.js";
import type { Conversation } from "../../src/capture/index.js";

const conversationBy = (dialect: Dialect) => (body: object) =>
  dialect.parse(body, {}).request.conversation;

/** Dialect → the conversation that a body means. */
export const conversationOf: Readonly<
  Record<"messages" | "chat" | "responses", (body: object) => Conversation>
> = {
  messages: conversationBy(messagesDialect),
  chat: conversationBy(chatDialect),
  responses: conversationBy(responsesDialect),
};
