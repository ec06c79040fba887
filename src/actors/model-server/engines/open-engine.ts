/** From options to a running engine. Modules load here, when the worker knows which it needs. */
import type { SamplingOverrides } from "../options.js";
import type { Renderer } from "../renderers/renderer.js";
import type { ChatEngine, TokenEngine } from "./engine.js";
import { EngineError } from "./engine-error.js";
import type { LearnToken } from "./llama-cpp.js";
import type { EngineOptions, HttpEngineOptions } from "./options.js";
import type { EngineStart, OpenedEngine } from "./start.js";

/** The part of the pin that is known before any request. */
type Pinned = Pick<SamplingOverrides, "max_tokens" | "min_p">;

/**
 * Opens the engine and checks that the server can do what its kind needs.
 * @throws ENGINE_MISCONFIGURED naming the flag to set, ENGINE_UNAVAILABLE when nothing answers,
 * MODEL_DIRECTORY_INVALID naming the file.
 */
export async function openEngine(
  options: EngineOptions,
  pinned: Pinned,
): Promise<OpenedEngine<ChatEngine>> {
  const opened =
    options.kind === "embedded"
      ? await openEmbedded(options.policy, pinned)
      : await openHttp(options);
  const { contextTokens } = opened.engine.capabilities;
  const { max_tokens } = pinned;
  if (contextTokens === undefined || max_tokens === undefined || max_tokens < contextTokens)
    return opened;
  const warning = `sampling_overrides.max_tokens is ${max_tokens}, but the engine's context has ${contextTokens} tokens: answers are cut to what the prompt leaves; raise --max-model-len (vLLM), --context-length (SGLang) or --ctx-size (llama.cpp)`;
  return { ...opened, warnings: [...opened.warnings, warning] };
}

async function openEmbedded(
  snapshot: Extract<EngineOptions, { kind: "embedded" }>["policy"],
  { min_p = 0 }: Pinned,
): Promise<OpenedEngine<ChatEngine>> {
  if (min_p > 0) throw new EngineError("ENGINE_MISCONFIGURED", "the embedded engine has no min_p");
  const [{ EmbeddedEngine }, { ChatTemplateRenderer }, { TokenChatEngine }, policy] =
    await Promise.all([
      import("./embedded.js"),
      import("../renderers/chat-template-renderer.js"),
      import("./token-chat-engine.js"),
      import("../../../embedded-policy/index.js"),
    ]);
  const vocabulary = await policy.loadQwen3Vocabulary();
  const renderer = new ChatTemplateRenderer(vocabulary, {
    family: "qwen3",
    chatTemplate: policy.qwen3ChatTemplate(),
    variables: { enable_thinking: false },
  });
  const engine = new EmbeddedEngine(new policy.EmbeddedPolicy(vocabulary), snapshot);
  return { engine: new TokenChatEngine(engine, renderer), warnings: [] };
}

async function openHttp(options: HttpEngineOptions): Promise<OpenedEngine<ChatEngine>> {
  const { EngineClient } = await import("./upstream/engine-client.js");
  const client = new EngineClient({
    urls: options.urls,
    ...(options.api_key === undefined ? {} : { apiKey: options.api_key }),
    connections: options.connections,
    connectTimeoutMs: options.connect_timeout_s * 1000,
    requestTimeoutMs: options.request_timeout_s * 1000,
    maxAttempts: options.max_attempts,
    healthIntervalMs: options.health_interval_s * 1000,
    drainTimeoutMs: options.drain_timeout_s * 1000,
  });
  try {
    const { signal } = new AbortController();
    return await openOn(options, { client, model: options.model, signal });
  } catch (error) {
    await client.close();
    throw error;
  }
}

async function openOn(
  options: HttpEngineOptions,
  start: Omit<EngineStart, "probeIds">,
): Promise<OpenedEngine<ChatEngine>> {
  if (options.kind === "openai_compatible") {
    const { OpenaiCompatibleEngine } = await import("./openai-compatible.js");
    return { engine: new OpenaiCompatibleEngine(start.client, options.model), warnings: [] };
  }
  if (options.kind === "vllm_chat") {
    const { openVllmChat } = await import("./vllm-chat.js");
    return openVllmChat(start, options.chat_template_kwargs);
  }
  if (options.kind === "sglang_chat") {
    const { openSglangChat } = await import("./sglang-chat.js");
    return openSglangChat(start, options.chat_template_kwargs);
  }
  return openTokenChat(options, start);
}

type TokenEngineOptions = Extract<HttpEngineOptions, { content_specials: unknown }>;

async function openTokenChat(
  options: TokenEngineOptions,
  start: Omit<EngineStart, "probeIds">,
): Promise<OpenedEngine<ChatEngine>> {
  const { renderer, learn, warnings } = await openRenderer(options, start);
  const probeIds = await renderer.promptIds({
    model: "",
    system: "",
    tools: [],
    messages: [{ role: "user", text: "hi" }],
  });
  const [opened, { TokenChatEngine }] = await Promise.all([
    openTokenEngine(options, { ...start, probeIds }, learn),
    import("./token-chat-engine.js"),
  ]);
  return {
    engine: new TokenChatEngine(opened.engine, renderer, options.history),
    warnings: [...warnings, ...opened.warnings],
  };
}

interface OpenedRenderer {
  readonly renderer: Renderer;
  readonly learn?: LearnToken;
  readonly warnings: readonly string[];
}

async function openRenderer(
  options: TokenEngineOptions,
  { client, signal }: Omit<EngineStart, "probeIds">,
): Promise<OpenedRenderer> {
  const { model_dir, family, chat_template, chat_template_kwargs: variables } = options;
  const chosen = {
    ...(family === undefined ? {} : { family }),
    variables,
    contentSpecials: options.content_specials,
  };
  if (model_dir === undefined) {
    if (chat_template !== undefined)
      throw new EngineError(
        "ENGINE_MISCONFIGURED",
        "engine.chat_template is set without engine.model_dir: start llama-server with --chat-template-file instead",
      );
    const { openServerRenderer } = await import("./llama-cpp-renderer.js");
    const { renderer, vocabulary, warnings } = await openServerRenderer(client, signal, chosen);
    return { renderer, learn: (id, bytes) => vocabulary.learn(id, bytes), warnings };
  }
  const { loadModelDirectory } = await import("../renderers/model-directory.js");
  const template = chat_template === undefined ? {} : { chatTemplateFile: chat_template };
  return { renderer: loadModelDirectory(model_dir, { ...chosen, ...template }), warnings: [] };
}

async function openTokenEngine(
  options: TokenEngineOptions,
  start: EngineStart,
  learn: LearnToken | undefined,
): Promise<OpenedEngine<TokenEngine>> {
  switch (options.kind) {
    case "vllm":
      return (await import("./vllm.js")).openVllm(start, options.api);
    case "sglang":
      return (await import("./sglang.js")).openSglang(start);
    case "llama_cpp":
      return (await import("./llama-cpp.js")).openLlamaCpp(start, learn);
  }
}
