/** The config as it is after merging and resolving. Unknown keys are refused; units stand in the names. */
import { z } from "zod";
import { HTTP_ENGINES } from "../../actors/index.js";
import { CALL_PURPOSES, TRAINED_PURPOSES } from "../../capture/index.js";

const kwargs = z.record(z.string(), z.unknown()).default({});

/** `module:Export`; a relative module is resolved against the config file. */
const moduleExport = z
  .string()
  .regex(/^[^\s]+:[A-Za-z_$][\w$]*$/, 'must be "module:Export", e.g. "./sink.mjs:MySink"');

const fraction = z.number().min(0).max(1);
const count = z.number().int().min(1);
const seed = z.number().int().min(0).max(0xffff_ffff);

const TokenIdCapture = z.strictObject({
  enabled: z.boolean().default(false),
  /** Capture every agent, also one whose own flag is false. */
  all_agents: z.boolean().default(false),
  /** Folder of run directories. */
  dir: z.string().min(1).optional(),
  sink: moduleExport.optional(),
  sink_kwargs: kwargs,
  /** False: capture is unchanged, rows keep their text, nothing is frozen or dropped by us. */
  rebuild_response: z.boolean().default(true),
  /** What a row holds: the chain of the final answer, or every chain. */
  delivery: z.enum(["main", "all"]).default("main"),
  /** `full` repeats the running prompt in every item, `delta` holds only what came since. */
  output_form: z.enum(["full", "delta"]).default("full"),
  /** Purposes whose chains are not masked in `all`. */
  trained_purposes: z.array(z.enum(CALL_PURPOSES)).default([...TRAINED_PURPOSES]),
  source: moduleExport.optional(),
  source_kwargs: kwargs,
  lineage: moduleExport.optional(),
  lineage_kwargs: kwargs,
  allow_unresolved_continuations: z.boolean().default(false),
  /** Stop the run when a larger share of its rows is masked. */
  max_mask_fraction: fraction.optional(),
  /** Rows before `max_mask_fraction` is looked at. */
  mask_fraction_min_samples: count.default(50),
  require_rollout_key: z.boolean().default(true),
  keep_masked_mb: z.number().min(0).optional(),
  allow_network_fs: z.boolean().default(false),
});

/** Over whatever a harness sends. */
const SamplingOverrides = z.strictObject({
  /** 0 is greedy. */
  temperature: z.number().min(0).max(100).optional(),
  top_p: z.number().gt(0).max(1).optional(),
  /** 0 means no limit. */
  top_k: z.number().int().min(0).optional(),
  /** 0 means no limit. */
  min_p: z.number().min(0).lt(1).optional(),
  max_tokens: count.optional(),
});

const Engine = z.discriminatedUnion("kind", [
  z.strictObject({
    kind: z.literal("embedded"),
    /** Seed of the run's sampling. Default: `rollout.seed`. */
    seed: seed.optional(),
    /** Path of a saved policy. Default: the untrained one. */
    checkpoint: z.string().min(1).optional(),
  }),
  ...HTTP_ENGINES,
]);

const Model = z.strictObject({
  engine: Engine,
  /** Threads, each with its own listener, engine client and sink. */
  num_workers: count.max(64).default(1),
  sampling_overrides: SamplingOverrides.default({}),
  /** Calls that one rollout may make. */
  max_model_calls: count.default(200),
});

const agentFields = {
  /** A key of `responses_api_models`. */
  model: z.string(),
  token_id_capture: z.boolean().default(false),
  /** Rollouts at a time. */
  concurrency: count.max(256).default(1),
  max_turns: count.default(16),
  timeout_s: z.number().gt(0).max(86_400).default(300),
};

const cliFields = {
  ...agentFields,
  /**
   * `bwrap` shows the harness nothing of this machine but the system, its program and its own directory. Default:
   * `none` with the embedded engine; with any other it must be said.
   */
  isolation: z.enum(["none", "bwrap"]).optional(),
};

const packagedCliFields = {
  ...cliFields,
  /** Path or name of the executable. Default: the installed package. */
  binary: z.string().min(1).optional(),
};

/** Tools that the CLI offers. Default: those that work on files. */
const tools = z.array(z.string().min(1)).min(1).optional();

const claudeFields = {
  ...packagedCliFields,
  tools,
  /** Context size, in tokens, at which the CLI compacts. Default: never; a full context then fails the rollout. */
  compact_at_tokens: count.optional(),
};

const Agent = z.discriminatedUnion("kind", [
  z.strictObject({ kind: z.literal("claude_code"), ...claudeFields }),
  z.strictObject({ kind: z.literal("claude_agent_sdk"), ...claudeFields }),
  z.strictObject({ kind: z.literal("codex"), ...packagedCliFields }),
  z.strictObject({ kind: z.literal("opencode"), ...packagedCliFields, tools }),
  z.strictObject({ kind: z.literal("pi"), ...packagedCliFields, tools }),
  z.strictObject({
    kind: z.literal("command"),
    ...cliFields,
    /** Program and arguments; `{base_url}`, `{api_key}`, `{model}`, `{prompt}` and `{workdir}` are replaced. */
    command: z.array(z.string().min(1)).min(1),
    /** Environment beside PATH, HOME, TMPDIR and TERM; the same placeholders. */
    env: z.record(z.string(), z.string()).default({}),
    /** Absolute paths that an isolated command may read beside the system and its own program. */
    readable: z.array(z.string().startsWith("/")).default([]),
  }),
  z.strictObject({
    kind: z.literal("function"),
    ...agentFields,
    /** `module#export` of an async function; a relative module is resolved against the config file. */
    module: z
      .string()
      .regex(/^[^#\s]+#[A-Za-z_$][\w$]*$/, 'must be "module#export", e.g. "./harness.mjs#run"'),
  }),
]);

/** Values of an agent's `kind`. */
export const AGENT_KINDS: readonly string[] = Agent.options.map(({ shape }) => shape.kind.value);

const Rollout = z.strictObject({
  /** Rollouts of each task. */
  group_size: count.default(1),
  seed: seed.default(0),
  /** Attempts of one rollout whose failure is retryable. */
  max_attempts: count.default(1),
  /** The run starts no rollout after this and cancels those that run. */
  deadline_s: z.number().gt(0).optional(),
});

const Metrics = z.strictObject({
  /** Port of `GET /metrics` (Prometheus text) while a training loop runs; 0 takes a free one. Default: not served. */
  port: z.number().int().min(0).max(65_535).optional(),
  host: z.string().min(1).default("127.0.0.1"),
});

export const Config = z.strictObject({
  token_id_capture: TokenIdCapture.prefault({}),
  responses_api_models: z.record(z.string(), Model).default({}),
  responses_api_agents: z.record(z.string(), Agent).default({}),
  rollout: Rollout.prefault({}),
  metrics: Metrics.prefault({}),
});

/** A checked config: every default filled in, every path absolute. Made by `loadConfig`. */
export type CorralConfig = z.output<typeof Config>;
export type AgentConfig = z.output<typeof Agent>;
export type ModelConfig = z.output<typeof Model>;

/** Keys whose values are free-form and may hold secrets. */
export const KWARGS_KEYS = ["sink_kwargs", "source_kwargs", "lineage_kwargs"] as const;
