/** OpenAI Chat Completions. Source: the recorded requests of opencode 1.18.33 and pi 0.73.1 in test/fixtures. */
import { chatJson, chatStream } from "./chat-reply.js";
import { parseChatRequest } from "./chat-request.js";
import type { Dialect } from "./dialect.js";
import { openAiError, openAiStatus } from "./openai.js";

export const chatDialect: Dialect = {
  parse(body, headers) {
    const request = parseChatRequest(body, headers);
    return { request, json: chatJson, openStream: () => chatStream(request.includeUsage) };
  },
  errorStatus: openAiStatus,
  errorBody: (error) => ({ error: openAiError(error) }),
};
