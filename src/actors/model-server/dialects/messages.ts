/** Anthropic Messages. Source: the recorded requests of Claude Code 2.1.197 and 2.1.332 in test/fixtures. */
import type { RequestError } from "../request-error.js";
import type { Dialect } from "./dialect.js";
import { parseMessagesRequest } from "./messages-request.js";
import { messagesJson, PING, streamBody, streamError, streamHead } from "./messages-sse.js";

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

export const messagesDialect: Dialect = {
  parse: parseMessagesRequest,
  json: messagesJson,
  streamHead,
  streamBody,
  keepAlive: PING,
  streamError: (error) => streamError(errorBody(error)),
  errorBody,
};
