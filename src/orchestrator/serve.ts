/**
 * `corral serve` as a function: the serving half of a run, and the port through which a run in another process opens,
 * seals and reads its rollouts.
 *
 * W1. Everything but the public capabilities lies under a random path: a harness that reaches the port can open, seal
 *     and read nothing.
 * W2. A method that is not in the table is refused.
 */
import { randomBytes } from "node:crypto";
import fs from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { type Attachment, type Capabilities, CONTROL_PATH, ControlCall } from "../actors/index.js";
import { type TokenCaptureSnapshot, tokenEntryToJson } from "../capture/index.js";
import { type ActorLogger, createRuntime } from "../runtime/index.js";
import { type CaptureDecisions, captureDecisions } from "./config/decisions.js";
import type { CorralConfig } from "./config/schema.js";
import { ConfigError } from "./errors.js";
import { type Serving, SHUTDOWN_DEADLINE_MS, startServing } from "./serving.js";

export interface ServeRequest {
  readonly config: CorralConfig;
  /** Port of the control address on 127.0.0.1. Default: a free one. */
  readonly port?: number;
  /** Gets the actors' records. Default: JSON lines on stderr. */
  readonly logger?: ActorLogger;
  /** Contract: must not throw. */
  readonly onWarning?: (message: string) => void;
}

/** A server that runs. `await using`. */
export interface Served extends AsyncDisposable {
  /** What `corral run --server` takes. Whoever has it may open and read rollouts. */
  readonly url: string;
  readonly capabilities: Capabilities;
}

/** @throws ConfigError for what the user must mend. */
export async function serve(request: ServeRequest): Promise<Served> {
  const { config, port = 0, logger, onWarning = () => undefined } = request;
  const decisions = captureDecisions(config);
  const [conflict] = decisions.errors;
  if (conflict !== undefined) throw conflict;
  checkRebuild(decisions);
  for (const message of decisions.warnings) onWarning(message);
  const dir = decisions.target.kind === "store" ? storeFolder(decisions.target.dir) : "";
  const runtime = await createRuntime(logger && { logger });
  try {
    const serving = await startServing(runtime, { config, decisions, dir });
    const capabilities = capabilitiesOf(config);
    const control = await listen(new Control(serving, capabilities), port);
    return {
      url: control.url,
      capabilities,
      [Symbol.asyncDispose]: async () => {
        await control.close();
        await runtime.shutdown({ deadlineMs: SHUTDOWN_DEADLINE_MS });
      },
    };
  } catch (error) {
    await runtime.shutdown({ deadlineMs: SHUTDOWN_DEADLINE_MS });
    throw error;
  }
}

/** The arguments of a user's source are secrets that do not cross to the run, which would have to build it. */
function checkRebuild({ rebuild, target }: CaptureDecisions): void {
  if (!rebuild || target.kind !== "module") return;
  throw new ConfigError(
    "NOT_AVAILABLE",
    "token_id_capture.sink",
    "cannot be rebuilt from by another process; allowed with corral serve: dir, or rebuild_response: false",
  );
}

/** A folder of its own for every start: rollout ids of two runs may be the same. */
function storeFolder(base: string): string {
  fs.mkdirSync(base, { recursive: true });
  return fs.mkdtempSync(path.join(base, "serve-"));
}

/** Arguments of modules may hold secrets and stay here. */
function capabilitiesOf(config: CorralConfig): Capabilities {
  const block = Object.entries(config.token_id_capture).filter(([key]) => !key.endsWith("_kwargs"));
  return {
    object: "corral.capabilities",
    models: Object.keys(config.responses_api_models),
    dialects: ["messages", "chat_completions", "responses"],
    token_id_capture: { enabled: false, ...Object.fromEntries(block) },
  };
}

/** What a run asks for, on the serving actors. */
class Control {
  readonly #serving: Serving;
  readonly #capabilities: Capabilities;

  constructor(serving: Serving, capabilities: Capabilities) {
    this.#serving = serving;
    this.#capabilities = capabilities;
  }

  get capabilities(): Capabilities {
    return this.#capabilities;
  }

  /** W2. */
  async answer(body: unknown): Promise<unknown> {
    const call = ControlCall.parse(body);
    if (call.target === "attach") return this.#attachment();
    const target = call.target === "store" ? this.#serving.store : this.#worker(call.name);
    if (target === undefined) throw new RangeError(`this server has no ${call.target}`);
    const methods = target.call as unknown as Record<string, (...args: unknown[]) => unknown>;
    const result = await methods[call.method]?.(...call.args);
    if (call.method !== "freeze" && call.method !== "peek") return result;
    return snapshotJson(result as TokenCaptureSnapshot | undefined);
  }

  #attachment(): Attachment {
    const { servers, store, keySecret, digests } = this.#serving;
    return {
      capabilities: this.#capabilities,
      workers: [...servers].flatMap(([model, workers]) =>
        workers.map(({ name, url }) => ({ model, name, url })),
      ),
      hasStore: store !== undefined,
      keySecret: Buffer.from(keySecret).toString("base64"),
      digests: [...digests],
    };
  }

  #worker(name: string) {
    return [...this.#serving.servers.values()].flat().find((worker) => worker.name === name)?.ref;
  }
}

function snapshotJson(snapshot: TokenCaptureSnapshot | undefined): unknown {
  return snapshot && { ...snapshot, entries: snapshot.entries.map(tokenEntryToJson) };
}

async function listen(
  control: Control,
  port: number,
): Promise<{ url: string; close: () => Promise<void> }> {
  const secret = `/${randomBytes(24).toString("base64url")}`; // W1
  const http = createServer((request, response) => {
    void respond(control, secret, request, response);
  });
  await new Promise<void>((resolve, reject) => {
    http.once("error", reject);
    http.listen(port, "127.0.0.1", resolve);
  });
  const address = http.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${address.port}${secret}`,
    close: async () => {
      http.closeAllConnections();
      await new Promise((resolve) => http.close(resolve));
    },
  };
}

async function respond(
  control: Control,
  secret: string,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const send = (status: number, body: unknown) => {
    response.writeHead(status, { "content-type": "application/json" });
    response.end(JSON.stringify(body));
  };
  const isControl = request.method === "POST" && request.url === secret + CONTROL_PATH;
  if (request.method === "GET" && request.url?.endsWith("/capabilities"))
    return send(200, control.capabilities);
  if (!isControl) return send(404, { error: { message: "not served here" } });
  try {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const result = await control.answer(JSON.parse(Buffer.concat(chunks).toString("utf8")));
    send(200, { result });
  } catch (error) {
    const { message, code } = error as { message?: unknown; code?: unknown };
    send(500, { error: { message: String(message), ...(code === undefined ? {} : { code }) } });
  }
}
