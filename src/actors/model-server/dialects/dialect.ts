/**
 * The seam between one wire format and the model calls behind it.
 *
 * Everything behind it works on `ModelRequest` and `ServedReply`; a wire format is a dialect and nothing else.
 */
import type { IncomingHttpHeaders } from "node:http";
import type { ModelRequest, ReplyHead, ServedReply } from "../model-request.js";
import type { RequestError } from "../request-error.js";

/** Contract: pure. */
export interface Dialect {
  /** @throws RequestError 400 naming the field that is wrong. */
  parse(body: unknown, headers: IncomingHttpHeaders): DialectCall;
  /** The HTTP status that makes this dialect's clients behave best. */
  errorStatus(error: RequestError): number;
  /** The body of an answer with an error status. */
  errorBody(error: RequestError): unknown;
}

/** One request, and how its answer looks: the answer depends on what was asked for. */
export interface DialectCall {
  readonly request: ModelRequest;
  /** The answer to a request that does not stream. */
  json(reply: ServedReply): unknown;
  /** The answer to a request that streams. Contract: one writer for one answer. */
  openStream(): StreamWriter;
}

/** Whole server-sent events, in the order of the methods: head, keep-alives, then body or error. */
export interface StreamWriter {
  /** Opens a stream; holds no content. */
  head(head: ReplyHead): string;
  /** What clients count as a sign of life. May come before the head is known. */
  keepAlive(): string;
  /** The content and the end of a stream. */
  body(reply: ServedReply): string;
  /** Ends a stream whose headers are out. */
  error(error: RequestError): string;
}
