/**
 * An inference server without a model: the embedded policy, or a script, behind the HTTP of vLLM, SGLang or llama.cpp.
 *
 * For people without a GPU, and for tests. It does not stream, it does not batch, and it imports nothing of the clients
 * that are tested against it.
 *
 * Q1. Faults spoil generation calls only, one each, in order.
 * Q2. A client that goes away ends its call.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { loadQwen3Vocabulary, untrainedSnapshot } from "../embedded-policy/index.js";
import { type MockAnswer, MockSampler, type MockWeights, type ScriptedAnswer } from "./answer.js";
import { MockChat } from "./chat.js";
import {
  type EndpointContext,
  type MockGeneration,
  MockRefusal,
  otherAnswer,
  readGeneration,
} from "./endpoints.js";
import { isMockFault, isTransportFault, type MockFault, spoil } from "./faults.js";
import type { MockEngineOptions } from "./options.js";
import { sendFault, sendJson } from "./transport.js";

/** A generation call as it was seen. */
export interface MockCall {
  readonly path: string;
  readonly body: Readonly<Record<string, unknown>>;
  /** The client closed the connection before it was answered. */
  aborted: boolean;
}

const MAX_CALLS_KEPT = 1000;
const DEFAULT_MAX_MODEL_LEN = 262_144;

const PAUSES = new Set(["/pause", "/pause_generation"]);
const RESUMES = new Set(["/resume", "/continue_generation"]);

export class MockEngine implements AsyncDisposable {
  /** The latest generation calls, oldest first. */
  readonly calls: MockCall[] = [];
  /** What answers say of their weights; null: nothing. */
  weightVersion: number | null = null;
  readonly #context: EndpointContext;
  readonly #sampler: MockSampler;
  readonly #faults: (MockFault | null)[];
  readonly #server: Server;
  #isPaused = false;
  #waiting: (() => void)[] = [];
  #seen: (() => void)[] = [];
  #healthChecks: (() => void)[] = [];

  private constructor(context: EndpointContext, sampler: MockSampler) {
    this.#context = context;
    this.#sampler = sampler;
    this.#faults = [...(context.options.faults ?? [])];
    this.#server = createServer((request, response) => {
      void this.#serve(request, response).catch((error: unknown) => {
        const status = error instanceof MockRefusal ? error.status : 500;
        const message = error instanceof Error ? error.message : String(error);
        sendJson(response, status, { error: { message, code: status } });
      });
    });
  }

  /** Listens on 127.0.0.1. */
  static async start(options: MockEngineOptions): Promise<MockEngine> {
    const vocabulary = await loadQwen3Vocabulary();
    const policy = options.policy ?? untrainedSnapshot();
    const context: EndpointContext = {
      options,
      vocabulary,
      chat: new MockChat(vocabulary),
      model: options.servedModelName ?? "policy",
      maxModelLen: options.maxModelLen ?? DEFAULT_MAX_MODEL_LEN,
    };
    const sampler = new MockSampler(vocabulary, policy, options.script ?? []);
    const engine = new MockEngine(context, sampler);
    await new Promise<void>((resolve, reject) => {
      engine.#server.once("error", reject);
      engine.#server.listen(options.port ?? 0, "127.0.0.1", resolve);
    });
    return engine;
  }

  /** Base URL without a trailing slash. */
  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Answers of the next generation calls, behind those of the script. */
  addAnswers(...answers: readonly ScriptedAnswer[]): void {
    this.#sampler.add(answers);
  }

  /** Spoils the next generation calls. */
  addFaults(...faults: (MockFault | null)[]): void {
    this.#faults.push(...faults);
  }

  /** Resolves when so many generation calls have come. */
  async called(times: number): Promise<void> {
    while (this.calls.length < times)
      await new Promise<void>((resolve) => this.#seen.push(resolve));
  }

  /** Resolves when the call's client has gone. */
  async aborted(call: MockCall): Promise<void> {
    while (!call.aborted) await new Promise<void>((resolve) => this.#seen.push(resolve));
  }

  /** Resolves when the next `/health` has been answered. */
  healthChecked(): Promise<void> {
    return new Promise((resolve) => this.#healthChecks.push(resolve));
  }

  /** Stops at once, calls in flight included. */
  async close(): Promise<void> {
    this.#resume();
    this.#server.closeAllConnections();
    await new Promise<void>((resolve) => this.#server.close(() => resolve()));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const method = request.method ?? "GET";
    const path = (request.url ?? "/").split("?", 1)[0] ?? "/";
    const body = method === "POST" ? await jsonBody(request) : {};
    if (method === "POST" && this.#control(path, body)) return sendJson(response, 200, {});
    const generation =
      method === "POST" ? await readGeneration(path, body, this.#context) : undefined;
    if (generation !== undefined) return this.#generate(path, body, generation, response);
    const answer = await otherAnswer(method, path, body, this.#context);
    if (answer === undefined) throw new MockRefusal(404, `${method} ${path} is not served`);
    sendJson(response, 200, answer);
    if (path === "/health") for (const wake of this.#healthChecks.splice(0)) wake();
  }

  /** Pauses, faults and weight versions; true when the path was one of them. */
  #control(path: string, body: Readonly<Record<string, unknown>>): boolean {
    if (PAUSES.has(path)) this.#isPaused = true;
    else if (RESUMES.has(path)) this.#resume();
    else if (path === "/mock/faults") this.addFaults(...faultsOf(body["faults"]));
    else if (path === "/mock/weight_version") this.weightVersion = Number(body["version"]);
    else return false;
    return true;
  }

  async #generate(
    path: string,
    body: Readonly<Record<string, unknown>>,
    { promptIds, sampling, logProbs, shaped }: MockGeneration,
    response: ServerResponse,
  ): Promise<void> {
    const call: MockCall = { path, body, aborted: false };
    response.once("close", () => {
      call.aborted = !response.writableFinished; // Q2
      for (const wake of this.#seen.splice(0)) wake();
    });
    this.calls.push(call);
    if (this.calls.length > MAX_CALLS_KEPT) this.calls.shift();
    for (const wake of this.#seen.splice(0)) wake();
    const fault = this.#faults.shift() ?? null; // Q1
    const before = this.weightVersion;
    while (this.#isPaused) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    if (call.aborted) return;
    const answer = spoil(await this.#sampler.answer(promptIds, sampling, logProbs), fault);
    const shape = shaped(answer, weightsOf(answer, before, this.weightVersion));
    if (fault !== null && isTransportFault(fault)) return sendFault(response, fault, shape);
    sendJson(response, 200, shape);
  }

  #resume(): void {
    this.#isPaused = false;
    for (const wake of this.#waiting.splice(0)) wake();
  }
}

/** A call that met an update has its first half from the old weights. */
function weightsOf(answer: MockAnswer, before: number | null, now: number | null): MockWeights[] {
  const end = answer.tokenIds?.length ?? 0;
  if (now === null) return [];
  const middle = Math.ceil(end / 2);
  if (before === null || before === now || middle === end) return [{ version: now, start: 0, end }];
  return [
    { version: before, start: 0, end: middle },
    { version: now, start: middle, end },
  ];
}

async function jsonBody(request: IncomingMessage): Promise<Readonly<Record<string, unknown>>> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const text = Buffer.concat(chunks).toString("utf8");
  try {
    return JSON.parse(text === "" ? "{}" : text) as Readonly<Record<string, unknown>>;
  } catch {
    throw new MockRefusal(400, "the body is no JSON");
  }
}

function faultsOf(names: unknown): MockFault[] {
  return (Array.isArray(names) ? names : [names]).map((name: unknown) => {
    if (typeof name === "string" && isMockFault(name)) return name;
    throw new MockRefusal(400, `${JSON.stringify(name)} is no fault`);
  });
}
