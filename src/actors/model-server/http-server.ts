/**
 * HTTP in front of one model server: which URL is which operation, and how a refusal looks.
 *
 * Paths are split by `rollout-path.ts`, not by the router, so that no layer decodes a rollout id.
 *
 * S1. Every error has the dialect's shape and an HTTP status, until a stream has started.
 * S2. An unknown POST under the training prefix marks the rollout incomplete: it may have been a model call.
 */
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from "fastify";
import { chatDialect } from "./dialects/chat.js";
import type { Dialect } from "./dialects/dialect.js";
import { messagesDialect } from "./dialects/messages.js";
import { responsesDialect } from "./dialects/responses.js";
import { asRequestError, RequestError } from "./request-error.js";
import { parseRolloutPath, type RolloutPath } from "./rollout-path.js";

/** What the routes call. Contract: each throws RequestError before it writes. */
export interface HttpOperations {
  modelCall(dialect: Dialect, target: RolloutPath, exchange: Exchange): Promise<void>;
  countTokens(dialect: Dialect, target: RolloutPath, exchange: Exchange): Promise<number>;
  /** A POST that is no operation. */
  unknownPost(target: RolloutPath, exchange: Exchange): void;
  models(): unknown;
  health(): unknown;
}

/** One request and its answer. */
export interface Exchange {
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
}

const DIALECTS: ReadonlyMap<string, Dialect> = new Map([
  ["/v1/messages", messagesDialect],
  ["/v1/chat/completions", chatDialect],
  ["/v1/responses", responsesDialect],
]);
const COUNT_TOKENS = "/v1/messages/count_tokens";

export function buildHttpServer(operations: HttpOperations, maxBodyBytes: number): FastifyInstance {
  const app = Fastify({
    bodyLimit: maxBodyBytes,
    exposeHeadRoutes: false,
    forceCloseConnections: true,
    rewriteUrl: () => "/", // The router could refuse an escape in a target before we see whose it is.
  });
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("*", { parseAs: "buffer" }, (_request, body, done) => done(null, body));
  app.setErrorHandler((error, request, reply) =>
    sendError(request, reply, refusalOf(error, maxBodyBytes)),
  );
  // Before the body is read: a POST that is refused for its body is a POST all the same (S2).
  app.addHook("onRequest", async (request, reply) => checkPost(operations, { request, reply }));
  app.all("/", (request, reply) => route(operations, { request, reply }));
  app.setNotFoundHandler((request, reply) =>
    sendError(request, reply, notFound(request.method, parseRolloutPath(request.originalUrl).path)),
  );
  return app;
}

function checkPost(operations: HttpOperations, exchange: Exchange): void {
  const { method, originalUrl } = exchange.request;
  if (method !== "POST") return;
  const target = parseRolloutPath(originalUrl);
  if (DIALECTS.has(target.path) || target.path === COUNT_TOKENS) return;
  operations.unknownPost(target, exchange); // S2
  throw notFound(method, target.path);
}

async function route(operations: HttpOperations, exchange: Exchange): Promise<unknown> {
  const { request, reply } = exchange;
  if (request.method === "HEAD") return reply.code(200).send();
  const target = parseRolloutPath(request.originalUrl);
  if (request.method === "POST") return post(operations, target, exchange);
  if (request.method === "GET" && target.path === "/v1/models") return operations.models();
  if (request.method === "GET" && target.path === "/health") return operations.health();
  throw notFound(request.method, target.path);
}

async function post(
  operations: HttpOperations,
  target: RolloutPath,
  exchange: Exchange,
): Promise<unknown> {
  const dialect = DIALECTS.get(target.path);
  if (dialect !== undefined) {
    await operations.modelCall(dialect, target, exchange);
    return exchange.reply;
  }
  return { input_tokens: await operations.countTokens(messagesDialect, target, exchange) };
}

/** The parsed body; its bytes are let go. @throws RequestError 400 when it is no JSON. */
export function takeJsonBody(request: FastifyRequest): unknown {
  const bytes = request.body;
  if (!Buffer.isBuffer(bytes)) throw new RequestError(400, "body: must be JSON, got none");
  try {
    const value: unknown = JSON.parse(bytes.toString("utf8"));
    request.body = undefined; // Hundreds of calls may wait for their engine.
    return value;
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    throw new RequestError(400, `body: must be JSON: ${message}`, { cause: error });
  }
}

function notFound(method: string, path: string): RequestError {
  return new RequestError(404, `${method} ${path === "" ? "/" : path} is not served here`);
}

function refusalOf(error: unknown, maxBodyBytes: number): RequestError {
  const { code, statusCode } = error as { code?: unknown; statusCode?: unknown };
  if (code === "FST_ERR_CTP_BODY_TOO_LARGE")
    return new RequestError(413, `body: more than ${maxBodyBytes} bytes (limit maxBodyBytes)`);
  if (code === "FST_ERR_CTP_INVALID_MEDIA_TYPE")
    return new RequestError(400, "content-type: is no media type; allowed: application/json");
  if (!(error instanceof RequestError) && typeof statusCode === "number" && statusCode < 500)
    return new RequestError(400, error instanceof Error ? error.message : String(error));
  return asRequestError(error);
}

function sendError(
  request: FastifyRequest,
  reply: FastifyReply,
  error: RequestError,
): FastifyReply {
  const dialect = errorDialect(request.originalUrl);
  if (error.retryAfterS !== undefined) void reply.header("retry-after", String(error.retryAfterS));
  return reply.code(dialect.errorStatus(error)).send(dialect.errorBody(error)); // S1
}

/** By the end of the path: a refusal may be for what stands before it. */
function errorDialect(target: string): Dialect {
  const path = target.split(/[?#]/, 1)[0] ?? "";
  for (const [end, dialect] of DIALECTS) if (path.endsWith(end)) return dialect;
  return messagesDialect;
}
