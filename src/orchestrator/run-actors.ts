/**
 * One config into running actors: the capture store, the model servers, one harness actor for each agent, the consumer.
 *
 * L1. A start that fails stops what was started before it.
 * L2. Shutdown goes producers first: harnesses, servers, consumer, store.
 */
import { randomBytes } from "node:crypto";
import {
  type AgentHarness,
  type AgentHarnessOptions,
  agentHarness,
  type CaptureStore,
  captureStore,
  type EngineOptions,
  type ModelServer,
  modelServer,
  type RolloutConsumer,
  rolloutConsumer,
} from "../actors/index.js";
import { type ActorLogger, type ActorRef, createRuntime, type Runtime } from "../runtime/index.js";
import type { CaptureDecisions } from "./config/decisions.js";
import type { AgentConfig, CorralConfig, ModelConfig } from "./config/schema.js";
import { ConfigError } from "./errors.js";
import { resolveModuleExport } from "./modules.js";
import { loadPolicy } from "./policies.js";

/** One thread of a model. */
export interface ServerWorker {
  readonly name: string;
  readonly ref: ActorRef<ModelServer>;
  readonly url: string;
}

/** The actors of a run. `await using`. */
export interface RunActors extends AsyncDisposable {
  readonly store: ActorRef<CaptureStore> | undefined;
  /** Model name → its workers. */
  readonly servers: ReadonlyMap<string, readonly ServerWorker[]>;
  /** Agent name → its harness actor. */
  readonly harnesses: ReadonlyMap<string, ActorRef<AgentHarness>>;
  readonly consumer: ActorRef<RolloutConsumer>;
  /** Signs the rollout keys; lives in memory only. */
  readonly keySecret: Uint8Array;
}

export interface StartRequest {
  readonly config: CorralConfig;
  readonly decisions: CaptureDecisions;
  /** Folder of the store. */
  readonly dir: string;
  readonly journalPath: string;
  /** The file of rows; without it a trainer takes them. */
  readonly outPath?: string;
  /** Gets the actors' records. Default: JSON lines on stderr. */
  readonly logger?: ActorLogger;
}

const STAGE = { harness: 0, server: 1, consumer: 2, store: 3 } as const;
const SHUTDOWN_DEADLINE_MS = 15_000;
/** Store and servers serve many rollouts at a time; their work is short or waits on something else. */
const SHARED_CONCURRENCY = 256;

/** @throws ConfigError naming the key, or the error of the actor that did not start. */
export async function startActors(request: StartRequest): Promise<RunActors> {
  const runtime = await createRuntime(request.logger && { logger: request.logger });
  try {
    return await start(runtime, request);
  } catch (error) {
    await runtime.shutdown({ deadlineMs: SHUTDOWN_DEADLINE_MS });
    throw error;
  }
}

async function start(runtime: Runtime, request: StartRequest): Promise<RunActors> {
  const { config, decisions } = request;
  const keySecret = new Uint8Array(randomBytes(32));
  const store =
    decisions.target.kind === "store"
      ? await startingAs("token_id_capture.dir", () =>
          runtime.spawn(
            captureStore,
            { dir: request.dir, allowNetworkFs: config.token_id_capture.allow_network_fs },
            { name: "capture-store", maxConcurrency: SHARED_CONCURRENCY, stopStage: STAGE.store },
          ),
        )
      : undefined;
  const capture = serverCapture(decisions, store);

  const models = Object.entries(config.responses_api_models).map(async ([name, model]) => {
    const engine = await engineOptions(name, model);
    const options = { ...serverOptions(name, model, engine, config), capture, keySecret };
    const workers = await startWorkers(runtime, name, model.num_workers, options);
    return { name, workers, digest: engine.kind === "embedded" ? engine.policy.digest : null };
  });
  const agents = Object.entries(config.responses_api_agents).map(
    async ([name, agent]) => [name, await startHarness(runtime, name, agent)] as const,
  );
  const [served, started] = await Promise.all([Promise.all(models), Promise.all(agents)]);
  const servers = new Map(served.map(({ name, workers }) => [name, workers]));

  const consumer = await runtime.spawn(
    rolloutConsumer,
    {
      journalPath: request.journalPath,
      ...(request.outPath === undefined ? {} : { outPath: request.outPath }),
      ...(store === undefined ? {} : { store }),
      servers: [...servers.values()].flat().map(({ ref }) => ref),
      rebuildResponse: decisions.rebuild,
      ...namedPolicy(new Set(served.map(({ digest }) => digest))),
    },
    { name: "rollout-consumer", maxConcurrency: SHARED_CONCURRENCY, stopStage: STAGE.consumer },
  );
  return {
    store,
    servers,
    harnesses: new Map(started),
    consumer,
    keySecret,
    [Symbol.asyncDispose]: async () => {
      await runtime.shutdown({ deadlineMs: SHUTDOWN_DEADLINE_MS });
    },
  };
}

/** Rows name the weights only where one name is true of all of them. */
function namedPolicy(digests: ReadonlySet<string | null>) {
  const [checkpoint_digest, ...others] = digests;
  if (typeof checkpoint_digest !== "string" || others.length > 0) return {};
  return { policy: { kind: "embedded", checkpoint_digest } };
}

function serverCapture(decisions: CaptureDecisions, store: ActorRef<CaptureStore> | undefined) {
  if (store !== undefined) return { kind: "store" as const, store };
  const { target } = decisions;
  return target.kind === "module" ? target : { kind: "off" as const };
}

async function engineOptions(name: string, { engine }: ModelConfig): Promise<EngineOptions> {
  if (engine.kind !== "embedded") return engine;
  return { kind: "embedded", policy: await loadPolicy(name, engine) };
}

function serverOptions(
  name: string,
  model: ModelConfig,
  engine: EngineOptions,
  config: CorralConfig,
) {
  return {
    host: "127.0.0.1" as const,
    port: 0 as const,
    workerGeneration: 0,
    model: name,
    engine,
    samplingOverrides: model.sampling_overrides,
    runSeed: model.engine.seed ?? config.rollout.seed,
    requireRolloutKey: config.token_id_capture.require_rollout_key,
    maxModelCalls: model.max_model_calls,
  };
}

async function startWorkers(
  runtime: Runtime,
  model: string,
  numWorkers: number,
  options: Omit<Parameters<typeof modelServer.create>[0], "workerIndex">,
): Promise<ServerWorker[]> {
  const indices = Array.from({ length: numWorkers }, (_, index) => index);
  return Promise.all(
    indices.map(async (workerIndex) => {
      const name = `${model}-${workerIndex}`;
      const spawnOptions = {
        name: `model-server-${name}`,
        maxConcurrency: SHARED_CONCURRENCY,
        stopStage: STAGE.server,
      };
      const ref = await startingAs(`responses_api_models.${model}.engine`, () =>
        runtime.spawn(modelServer, { ...options, workerIndex }, spawnOptions),
      );
      const { url } = await ref.call.address();
      return { name, ref, url };
    }),
  );
}

async function startHarness(
  runtime: Runtime,
  name: string,
  agent: AgentConfig,
): Promise<ActorRef<AgentHarness>> {
  const spawnOptions = {
    name: `agent-harness-${name}`,
    // One more than the rollouts, so that a cancel never waits behind them.
    maxConcurrency: agent.concurrency + 1,
    stopStage: STAGE.harness,
  };
  const field = `responses_api_agents.${name}${agent.kind === "function" ? ".module" : ""}`;
  const options = harnessOptions(agent, field);
  return startingAs(field, () => runtime.spawn(agentHarness, options, spawnOptions));
}

function harnessOptions(agent: AgentConfig, field: string): AgentHarnessOptions {
  switch (agent.kind) {
    case "function":
      return { kind: "function", ...resolveModuleExport(agent.module, process.cwd(), field) };
    case "command": {
      const { kind, isolation, env, readable } = agent;
      const [program = "", ...args] = agent.command;
      return { kind, isolation, env, readable, command: [program, ...args] };
    }
    case "claude_code":
    case "codex":
    case "pi": {
      const { kind, isolation, binary } = agent;
      return { kind, isolation, ...(binary === undefined ? {} : { binary }) };
    }
  }
}

/** Why a start failed that the config's author can mend. */
const STARTS_TO_MEND = new Set([
  "NETWORK_FILE_SYSTEM",
  "HARNESS_NOT_FOUND",
  "HARNESS_MODULE_INVALID",
  "ISOLATION_FAILED",
  "MODEL_DIRECTORY_INVALID",
]);

/** True for a failure that the config's author, or who runs the engine, can mend. */
function isToMend(error: Error): error is Error & { code: string } {
  const code = "code" in error ? String(error.code) : "";
  return STARTS_TO_MEND.has(code) || code.startsWith("ENGINE_");
}

/** Names the key whose actor does not start; any other failure passes unchanged. */
async function startingAs<T>(field: string, spawn: () => Promise<T>): Promise<T> {
  try {
    return await spawn();
  } catch (error) {
    for (let cause: unknown = error; cause instanceof Error; cause = cause.cause) {
      // A sink or lineage that a worker could not build already names its key.
      const named = /^(token_id_capture\.\w+): (.*)/s.exec(cause.message);
      if (named !== null)
        throw new ConfigError("START_FAILED", named[1] ?? field, named[2] ?? "", { cause: error });
      if (!isToMend(cause)) continue;
      const inner = cause.cause instanceof Error ? cause.cause.message : "";
      const why = cause.message.includes(inner) ? "" : `: ${inner}`;
      throw new ConfigError("START_FAILED", field, `${cause.message}${why}`, { cause: error });
    }
    throw error;
  }
}

/** @throws NOT_AVAILABLE when the config asks for a rebuild through an own source. */
export function checkSource(decisions: CaptureDecisions): void {
  if (!decisions.rebuild || decisions.target.kind !== "module") return;
  throw new ConfigError(
    "NOT_AVAILABLE",
    "token_id_capture.source",
    "is not available in this version; allowed: rebuild_response: false beside a sink",
  );
}
