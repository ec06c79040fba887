/** Options of one model-server worker, checked at start. */
import { z } from "zod";
import type { BatchWriter, TokenLineage } from "../../capture/index.js";
import { UserClass } from "../user-class.js";
import { EngineOptions } from "./engines/options.js";

/** Parameters that win over whatever the harness sends. */
export const SamplingOverrides = z.strictObject({
  /** 0 is greedy. */
  temperature: z.number().min(0).optional(),
  /** In (0, 1]. */
  top_p: z.number().gt(0).max(1).optional(),
  /** 0 means no limit. */
  top_k: z.number().int().min(0).optional(),
  /** In [0, 1); 0 means no limit. */
  min_p: z.number().min(0).lt(1).optional(),
  max_tokens: z.number().int().min(1).optional(),
});
export type SamplingOverrides = z.infer<typeof SamplingOverrides>;

const positive = z.number().int().positive();

export const ModelServerLimits = z.strictObject({
  /** Bytes of one request body. */
  maxBodyBytes: positive.default(64 * 1024 * 1024),
  /** Calls of one rollout at a time. */
  maxInFlight: positive.default(32),
  /** How long one write to the sink may take before the call is answered without its record. */
  putTimeoutMs: positive.default(10_000),
  /** When headers and keep-alives of a slow stream start. At most 300 s: Claude Code gives up then. */
  keepAliveAfterMs: positive.max(300_000).default(10_000),
  /** What calls in flight get when their rollout is sealed. */
  sealTimeoutMs: z.number().int().min(0).default(10_000),
});
export type ModelServerLimits = z.infer<typeof ModelServerLimits>;

/** What a worker calls on the capture-store actor. A handle of that actor fits. */
export interface CaptureStoreRef {
  readonly call: BatchWriter & Pick<TokenLineage, "candidates" | "cumulativeIds">;
}

const Capture = z.discriminatedUnion("kind", [
  z.strictObject({ kind: z.literal("off") }),
  z.strictObject({
    kind: z.literal("store"),
    store: z.custom<CaptureStoreRef>((value) => value !== null && value !== undefined, {
      error: "must be a handle of the capture-store actor",
    }),
  }),
  z.strictObject({
    kind: z.literal("module"),
    sink: UserClass,
    /** Without it every continuation is UNRESOLVED. */
    lineage: UserClass.optional(),
  }),
]);
export type CaptureDescriptor = z.infer<typeof Capture>;

const ModelServerOptionsSchema = z.strictObject({
  /** @default "127.0.0.1" */
  host: z.string().default("127.0.0.1"),
  /** 0 takes a free port. @default 0 */
  port: z.number().int().min(0).max(65_535).default(0),
  /** int32[1] in shared memory: the port that the first thread was given, which a restarted one takes again. */
  boundPort: z
    .custom<Int32Array>((value) => value instanceof Int32Array && value.length === 1, {
      error: "must be an Int32Array of one element",
    })
    .optional(),
  workerIndex: z.number().int().min(0),
  /** Name under which `/v1/models` lists the policy; a request may name any. */
  model: z.string().min(1),
  engine: EngineOptions,
  /** Version of the weights at start. @default 0 */
  policyVersion: z.number().int().min(0).optional(),
  samplingOverrides: SamplingOverrides,
  runSeed: z.number().int(),
  capture: Capture,
  /** uint8[32]. Never leaves memory. */
  keySecret: z.custom<Uint8Array>((value) => value instanceof Uint8Array && value.length === 32, {
    error: "must be a Uint8Array of 32 bytes",
  }),
  /** False lets custom harnesses on loopback call an open rollout without its key. */
  requireRolloutKey: z.boolean(),
  /** Calls of one rollout in all. */
  maxModelCalls: positive,
  limits: ModelServerLimits.partial().optional(),
});

export type ModelServerOptions = z.output<typeof ModelServerOptionsSchema>;

/** @throws RangeError naming each option that is wrong. */
export function parseModelServerOptions(value: unknown): ModelServerOptions {
  const parsed = ModelServerOptionsSchema.safeParse(value);
  if (parsed.success) return parsed.data;
  const problems = parsed.error.issues.map(
    (issue) => `${issue.path.join(".") || "options"}: ${issue.message}`,
  );
  throw new RangeError(`model server options: ${problems.join("; ")}`);
}

export function resolveLimits(limits: ModelServerOptions["limits"]): ModelServerLimits {
  return ModelServerLimits.parse(limits ?? {});
}
