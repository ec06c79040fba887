/** OpenAI Responses. Source: the recorded requests of Codex 0.171.0 in test/fixtures. */
import type { Dialect } from "./dialect.js";
import { openAiError, openAiStatus } from "./openai.js";
import { ResponsesStream, responsesJson } from "./responses-reply.js";
import { parseResponsesRequest } from "./responses-request.js";

export const responsesDialect: Dialect = {
  parse(body, headers) {
    const request = parseResponsesRequest(body, headers);
    const { asked } = request;
    return {
      request,
      json: (reply) => responsesJson(asked, reply),
      openStream: () => new ResponsesStream(asked),
    };
  },
  errorStatus: openAiStatus,
  errorBody: (error) => ({ error: openAiError(error) }),
};
