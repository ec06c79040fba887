/** Engines over HTTP, against a mock engine. */
import { onTestFinished } from "vitest";
import type { ChatEngine, TokenEngine } from "../../src/actors/model-server/engines/engine.js";
import { openLlamaCpp } from "../../src/actors/model-server/engines/llama-cpp.js";
import { OpenaiCompatibleEngine } from "../../src/actors/model-server/engines/openai-compatible.js";
import { openSglang } from "../../src/actors/model-server/engines/sglang.js";
import { openSglangChat } from "../../src/actors/model-server/engines/sglang-chat.js";
import type { EngineStart } from "../../src/actors/model-server/engines/start.js";
import {
  type HistoryMode,
  TokenChatEngine,
} from "../../src/actors/model-server/engines/token-chat-engine.js";
import {
  EngineClient,
  type EngineClientOptions,
} from "../../src/actors/model-server/engines/upstream/engine-client.js";
import { openVllm } from "../../src/actors/model-server/engines/vllm.js";
import { openVllmChat } from "../../src/actors/model-server/engines/vllm-chat.js";
import type { TokenCaptureStore } from "../../src/capture/index.js";
import { MockEngine, type MockEngineOptions } from "../../src/mock-engine/index.js";
import { temporaryStore } from "./capture.js";
import type { StreamedMessage } from "./messages-stream.js";
import {
  emitted,
  keyHeaders,
  postMessages,
  qwen3Renderer,
  type RunningServer,
  startServer,
  storeCapture,
} from "./model-server.js";

export type EngineName =
  | "vllm"
  | "vllm_generate"
  | "sglang"
  | "llama_cpp"
  | "vllm_chat"
  | "sglang_chat"
  | "openai_compatible";

export const TOKEN_ENGINES = ["vllm", "vllm_generate", "sglang", "llama_cpp"] as const;

/** Servers that render and parse by themselves, and tell ids. */
export const CHAT_ENGINES = ["vllm_chat", "sglang_chat"] as const;

/** A mock engine of the shape that the engine speaks, closed when the test ends. */
export async function startMock(
  name: EngineName,
  options: Partial<MockEngineOptions> = {},
): Promise<MockEngine> {
  const shape = name === "llama_cpp" ? name : name.startsWith("sglang") ? "sglang" : "vllm";
  const mock = await MockEngine.start({
    shape,
    logprobsMode: "processed_logprobs",
    autoToolChoice: true,
    ...options,
  });
  onTestFinished(() => mock.close());
  return mock;
}

export function engineClient(
  urls: readonly string[],
  options: Partial<EngineClientOptions> = {},
): EngineClient {
  const client = new EngineClient({
    urls,
    connections: 8,
    connectTimeoutMs: 5000,
    requestTimeoutMs: 60_000,
    maxAttempts: 3,
    healthIntervalMs: 1000,
    drainTimeoutMs: 0,
    ...options,
  });
  onTestFinished(() => client.close());
  return client;
}

export interface OpenedForTest {
  readonly engine: ChatEngine;
  readonly warnings: readonly string[];
}

/** Opens the engine on the client as a worker would; rendering is Qwen3's without thinking. */
export async function openForTest(
  name: EngineName,
  client: EngineClient,
  { history }: { history?: HistoryMode } = {},
): Promise<OpenedForTest> {
  if (name === "openai_compatible")
    return { engine: new OpenaiCompatibleEngine(client, "policy"), warnings: [] };
  const { signal } = new AbortController();
  const probeIds = await emitted("<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n");
  const start: EngineStart = { client, model: undefined, probeIds, signal };
  if (name === "vllm_chat") return openVllmChat(start, { enable_thinking: false });
  if (name === "sglang_chat") return openSglangChat(start, { enable_thinking: false });
  const { engine, warnings } = await openToken(name, start);
  return { engine: new TokenChatEngine(engine, await qwen3Renderer(), history), warnings };
}

function openToken(
  name: (typeof TOKEN_ENGINES)[number],
  start: EngineStart,
): Promise<{ engine: TokenEngine; warnings: readonly string[] }> {
  if (name === "sglang") return openSglang(start);
  if (name === "llama_cpp") return openLlamaCpp(start);
  return openVllm(start, name === "vllm" ? "completions" : "generate");
}

export interface EngineRollout extends RunningServer {
  readonly store: TokenCaptureStore;
  call(body: unknown, more?: { signal?: AbortSignal }): Promise<Response>;
}

/** A captured rollout `r1` on a worker with that engine. */
export async function rolloutWith(
  parts: Parameters<typeof startServer>[0],
  settings: Parameters<typeof startServer>[1] = {},
): Promise<EngineRollout> {
  const { store } = temporaryStore();
  await store.open("r1");
  const running = await startServer({ capture: storeCapture(store), ...parts }, settings);
  running.server.openRollout({ rolloutId: "r1", epoch: 1, captured: true });
  const headers = keyHeaders("r1");
  const call = (body: unknown, more = {}) => postMessages(running.base("r1"), body, headers, more);
  return { ...running, store, call };
}

const BASH = {
  name: "Bash",
  description: "run",
  input_schema: {
    type: "object",
    properties: { command: { type: "string" } },
    required: ["command"],
  },
};

/** A harness without a model of its own: answers every tool call, and goes on after every text. */
export async function playRollout(
  { call }: Pick<EngineRollout, "call">,
  turns: number,
  more: object = {},
): Promise<StreamedMessage[]> {
  const messages: object[] = [{ role: "user", content: 'Say "ok" or look at notes.txt.' }];
  const answers: StreamedMessage[] = [];
  for (let turn = 0; turn < turns; turn++) {
    const body = { model: "policy", max_tokens: 200, system: "agent", tools: [BASH], messages };
    const response = await call({ ...body, seed: 24 + turn, ...more });
    if (response.status !== 200) throw new Error(`${response.status}: ${await response.text()}`);
    const answer = (await response.json()) as StreamedMessage;
    answers.push(answer);
    messages.push({ role: "assistant", content: answer.content });
    const results = answer.content
      .filter((block) => block["type"] === "tool_use")
      .map((block) => ({ type: "tool_result", tool_use_id: block["id"], content: `é ${turn}` }));
    messages.push({ role: "user", content: results.length > 0 ? results : "go on" });
  }
  return answers;
}
