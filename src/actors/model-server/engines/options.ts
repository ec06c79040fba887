/** Engine options of one model-server worker. */
import { z } from "zod";
import type { PolicySnapshot } from "../../../embedded-policy/index.js";
import { FAMILY_NAMES } from "../renderers/families.js";

const count = z.number().int().min(1);

/** Base URL of a server, without the endpoint's path. */
const url = z.string().refine((text) => /^https?:$/.test(URL.parse(text)?.protocol ?? ""), {
  error: 'must be an http URL, e.g. "http://127.0.0.1:8000"',
});

const upstream = {
  /** Replicas of one model. */
  urls: z.array(url).min(1),
  /** The server's name for the model. Default: the first that it lists. */
  model: z.string().min(1).optional(),
  api_key: z.string().min(1).optional(),
  /** Seed of the run's sampling. uint32. Default: the run's. */
  seed: z.number().int().min(0).max(0xffff_ffff).optional(),
  /** Connections to each replica, for each worker. */
  connections: count.max(4096).default(64),
  /** Of one call, retries included. */
  request_timeout_s: z.number().gt(0).max(86_400).default(600),
  connect_timeout_s: z.number().gt(0).max(600).default(10),
  /** Times a call is sent when nothing was generated. */
  max_attempts: count.max(20).default(4),
  health_interval_s: z.number().gt(0).max(3600).default(2),
  /** What calls in flight get when the server closes. */
  drain_timeout_s: z.number().min(0).max(3600).default(10),
};

const rendering = {
  /** Folder with tokenizer.json, tokenizer_config.json and the chat template. Path. */
  model_dir: z.string().min(1),
  /** Default: the one that the chat template is written for. */
  family: z.enum(FAMILY_NAMES).optional(),
  /** A template in place of the folder's own. Path. */
  chat_template: z.string().min(1).optional(),
  /** Variables of the template, e.g. enable_thinking. */
  chat_template_kwargs: z.record(z.string(), z.unknown()).default({}),
  /** `template` renders history anew, as servers do; where that changes it, a new segment begins. */
  history: z.enum(["append_only", "template"]).default("append_only"),
  /** `special`: special-token text in a message becomes the special token, as servers do. */
  content_specials: z.enum(["text", "special"]).default("text"),
};

/** The server has template and parsers. */
const serverRendering = { chat_template_kwargs: rendering.chat_template_kwargs };

/** Engines that are spoken to over HTTP, as a config writes them. */
export const HTTP_ENGINES = [
  z.strictObject({
    kind: z.literal("vllm"),
    ...upstream,
    ...rendering,
    api: z.enum(["auto", "completions", "generate"]).default("auto"),
  }),
  z.strictObject({ kind: z.literal("sglang"), ...upstream, ...rendering }),
  z.strictObject({
    kind: z.literal("llama_cpp"),
    ...upstream,
    ...rendering,
    /** Default: the server's own template and tokenizer. */
    model_dir: rendering.model_dir.optional(),
  }),
  z.strictObject({ kind: z.literal("vllm_chat"), ...upstream, ...serverRendering }),
  z.strictObject({ kind: z.literal("sglang_chat"), ...upstream, ...serverRendering }),
  z.strictObject({
    kind: z.literal("openai_compatible"),
    ...upstream,
    model: z.string().min(1),
  }),
] as const;

export const EngineOptions = z.discriminatedUnion("kind", [
  z.strictObject({
    kind: z.literal("embedded"),
    policy: z.custom<PolicySnapshot>(
      (value) => typeof value === "object" && value !== null && "weights" in value,
      { error: "must be a policy snapshot" },
    ),
  }),
  ...HTTP_ENGINES,
]);
export type EngineOptions = z.output<typeof EngineOptions>;
export type HttpEngineOptions = Exclude<EngineOptions, { kind: "embedded" }>;

/** Every `engine.kind`. */
export const ENGINE_KINDS: readonly string[] = EngineOptions.options.map(
  ({ shape }) => shape.kind.value,
);
