/** Anthropic Messages. Source: the recorded requests of Claude Code 2.1.197 and 2.1.332 in test/fixtures. */
import type { RequestError } from "../request-error.js";
import { serverSentEvent } from "../sse.js";
import type { Dialect, StreamWriter } from "./dialect.js";
import { parseMessagesRequest } from "./messages-request.js";
import { messagesJson, PING, streamBody, streamHead } from "./messages-sse.js";

const ERROR_TYPES: Readonly<Record<RequestError["status"], string>> = {
  400: "invalid_request_error",
  403: "permission_error",
  404: "not_found_error",
  413: "request_too_large",
  500: "api_error",
  529: "overloaded_error",
};

function errorBody(error: RequestError): unknown {
  return { type: "error", error: { type: ERROR_TYPES[error.status], message: error.message } };
}

const WRITER: StreamWriter = {
  head: streamHead,
  keepAlive: () => PING,
  body: streamBody,
  error: (error) => serverSentEvent("error", errorBody(error)),
};

export const messagesDialect: Dialect = {
  parse: (body, headers) => ({
    request: parseMessagesRequest(body, headers),
    json: messagesJson,
    openStream: () => WRITER,
  }),
  errorStatus: (error) => error.status,
  errorBody,
};
