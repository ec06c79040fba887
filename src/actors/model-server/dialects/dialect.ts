/** The seam between one wire format and the model calls behind it. */
import type { IncomingHttpHeaders } from "node:http";
import type { ModelRequest, ReplyHead, ServedReply } from "../model-request.js";
import type { RequestError } from "../request-error.js";

/** Contract: pure; every string method yields whole server-sent events. */
export interface Dialect {
  /** @throws RequestError 400 naming the field that is wrong. */
  parse(body: unknown, headers: IncomingHttpHeaders): ModelRequest;
  /** The answer to a request that does not stream. */
  json(reply: ServedReply): unknown;
  /** Opens a stream; holds no content. */
  streamHead(head: ReplyHead): string;
  /** The content and the end of a stream. */
  streamBody(reply: ServedReply): string;
  readonly keepAlive: string;
  /** Ends a stream whose headers are out. */
  streamError(error: RequestError): string;
  /** The body of an answer with an error status. */
  errorBody(error: RequestError): unknown;
}
