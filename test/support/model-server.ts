/** Model servers, engines and sinks for tests. */
import { readdirSync, readFileSync } from "node:fs";
import { gunzipSync } from "node:zlib";
import { onTestFinished } from "vitest";
import type { CaptureClient } from "../../src/actors/model-server/capture-client.js";
import type { Clock } from "../../src/actors/model-server/clock.js";
import {
  type ChatEngine,
  FULL_CAPABILITIES,
  type TokenEngine,
  type TokenGeneration,
  type TokenRequest,
} from "../../src/actors/model-server/engines/engine.js";
import {
  type HistoryMode,
  TokenChatEngine,
} from "../../src/actors/model-server/engines/token-chat-engine.js";
import {
  ModelServer,
  type ModelServerSettings,
} from "../../src/actors/model-server/model-server.js";

import { ChatTemplateRenderer } from "../../src/actors/model-server/renderers/chat-template-renderer.js";
import { rolloutKey } from "../../src/actors/model-server/rollout-key.js";
import { StoreSink, type TokenCaptureStore, type TokenSink } from "../../src/capture/index.js";
import { loadQwen3Vocabulary, qwen3ChatTemplate } from "../../src/embedded-policy/index.js";

export const SECRET = new Uint8Array(32).fill(7);

/** As the actor takes them. */
export const ACTOR_SETTINGS: Omit<ModelServerSettings, "workerGeneration"> = {
  host: "127.0.0.1",
  port: 0,
  workerIndex: 0,
  model: "policy",
  samplingOverrides: {},
  runSeed: 1,
  keySecret: SECRET,
  requireRolloutKey: true,
  maxModelCalls: 100,
};

const SETTINGS: ModelServerSettings = { ...ACTOR_SETTINGS, workerGeneration: 0 };

const silentLogger = { warn: () => undefined, error: () => undefined };

let renderer: Promise<ChatTemplateRenderer> | undefined;

/** Qwen3's renderer as the embedded engine has it. */
export function qwen3Renderer(): Promise<ChatTemplateRenderer> {
  renderer ??= newQwen3Renderer();
  return renderer;
}

export async function newQwen3Renderer(
  guards: (text: string) => boolean = () => false,
): Promise<ChatTemplateRenderer> {
  return new ChatTemplateRenderer(await loadQwen3Vocabulary(), {
    family: "qwen3",
    chatTemplate: qwen3ChatTemplate(),
    variables: { enable_thinking: false },
    guards,
  });
}

/** Ids of a text as the model would emit it: special spellings are special tokens. */
export async function emitted(text: string): Promise<Int32Array> {
  return (await loadQwen3Vocabulary()).encode(text);
}

export function toolCallText(name: string, input: unknown): string {
  return `<tool_call>\n${JSON.stringify({ name, arguments: input })}\n</tool_call>`;
}

/** An engine whose answers the test writes: a text, or a function of the request. */
export class ScriptedEngine implements TokenEngine {
  readonly capabilities = FULL_CAPABILITIES;
  readonly requests: TokenRequest[] = [];
  readonly #answers: (string | ((request: TokenRequest) => Promise<Partial<TokenGeneration>>))[];
  #waiting: (() => void)[] = [];

  constructor(
    answers: (string | ((request: TokenRequest) => Promise<Partial<TokenGeneration>>))[] = [],
  ) {
    this.#answers = answers;
  }

  async generate(request: TokenRequest): Promise<TokenGeneration> {
    this.requests.push(request);
    for (const wake of this.#waiting.splice(0)) wake();
    const answer = this.#answers.shift() ?? "ok<|im_end|>";
    const given =
      typeof answer === "string" ? { tokenIds: await emitted(answer) } : await answer(request);
    const tokenIds = given.tokenIds ?? Int32Array.of();
    return {
      tokenIds,
      logProbs: Float64Array.from(tokenIds, () => -0.5),
      logprobsMode: "processed",
      finishReason: "stop",
      policyVersionStart: 3,
      policyVersionEnd: 3,
      ...given,
    };
  }

  /** Resolves when the engine has been asked that many times. */
  async asked(times: number): Promise<void> {
    while (this.requests.length < times)
      await new Promise<void>((wake) => this.#waiting.push(wake));
  }

  async close(): Promise<void> {}
}

/** An engine answer that never comes; it ends with the call's signal, as an engine must. */
export function never({ signal }: TokenRequest): Promise<never> {
  return new Promise((_, reject) =>
    signal.addEventListener("abort", () => reject(signal.reason as Error)),
  );
}

/** The capture client of a worker over a store in this thread. */
export function storeCapture(
  store: TokenCaptureStore,
  sink: Partial<TokenSink> = {},
): CaptureClient {
  const real = new StoreSink(store);
  return {
    sink: {
      put: (entry) => real.put(entry),
      markIncomplete: (...args) => real.markIncomplete(...args),
      beginCall: (...args) => real.beginCall(...args),
      endCall: (...args) => real.endCall(...args),
      close: () => real.close(),
      ...sink,
    },
    ordersWrites: true,
    lineage: {
      candidates: async (rolloutId, key) =>
        real.recentCandidates(rolloutId, key) ?? store.candidates(rolloutId, key),
      cumulativeIds: async (rolloutId, callId) =>
        real.recentIds(rolloutId, callId) ?? store.cumulativeIds(rolloutId, callId),
    },
    forget: (rolloutId) => real.forget(rolloutId),
    close: async () => undefined,
  };
}

export interface RunningServer {
  readonly server: ModelServer;
  readonly url: string;
  /** Base URL of a captured rollout. */
  base(rolloutId: string): string;
}

type ServerParts = {
  engine?: TokenEngine;
  /** In place of `engine` and Qwen3's renderer. */
  chatEngine?: ChatEngine;
  capture?: CaptureClient | null;
  clock?: Clock;
  history?: HistoryMode;
};

/** A listening worker, closed when the test ends. */
export async function startServer(
  parts: ServerParts = {},
  settings: Partial<ModelServerSettings> = {},
): Promise<RunningServer> {
  const running = await serverOf(parts, settings);
  onTestFinished(() => running.server.close());
  return running;
}

/** A listening worker that the caller closes. */
export async function serverOf(
  parts: ServerParts,
  settings: Partial<ModelServerSettings>,
): Promise<RunningServer> {
  const { engine = new ScriptedEngine(), capture = null, clock, history } = parts;
  const server = new ModelServer(
    { ...SETTINGS, ...settings },
    {
      engine: parts.chatEngine ?? new TokenChatEngine(engine, await qwen3Renderer(), history),
      capture,
      logger: silentLogger,
      ...(clock === undefined ? {} : { clock }),
    },
  );
  await server.start();
  const { url } = server.address();
  return { server, url, base: (id) => `${url}/ng-rollout/${id}/training-token-capture` };
}

export function keyHeaders(rolloutId: string, epoch = 1): Record<string, string> {
  return { "x-api-key": rolloutKey(SECRET, rolloutId, epoch), "content-type": "application/json" };
}

export function userRequest(text: string, more: object = {}): object {
  return { model: "policy", max_tokens: 64, messages: [{ role: "user", content: text }], ...more };
}

export function postMessages(
  base: string,
  body: unknown,
  headers: Record<string, string>,
  more: { signal?: AbortSignal } = {},
): Promise<Response> {
  return fetch(`${base}/v1/messages?beta=true`, {
    method: "POST",
    headers,
    body: typeof body === "string" ? body : JSON.stringify(body),
    ...more,
  });
}

interface RecordedBody {
  readonly model: string;
  readonly stream?: boolean;
  readonly messages: readonly { readonly role: string; readonly content: unknown }[];
  readonly [key: string]: unknown;
}

/** Recorded requests of real harnesses, by file name without its ending. */
export function recordedRequests(
  prefix: string,
): { name: string; path: string; headers: Record<string, string>; body: RecordedBody }[] {
  const dir = new URL("../fixtures/requests/", import.meta.url);
  return readdirSync(dir)
    .filter((file) => file.startsWith(prefix))
    .sort()
    .map((file) => ({
      name: file.replace(/\.json\.gz$/, ""),
      ...JSON.parse(gunzipSync(readFileSync(new URL(file, dir))).toString("utf8")),
    }));
}
