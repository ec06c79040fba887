/**
 * The serving half of a run: the capture store and the workers of every model. `corral run` starts it beside harnesses
 * and consumer, `corral serve` alone.
 */
import { randomBytes } from "node:crypto";
import {
  type CaptureStore,
  captureStore,
  type EngineOptions,
  type ModelServer,
  modelServer,
} from "../actors/index.js";
import type { ActorRef, Runtime } from "../runtime/index.js";
import type { CaptureDecisions } from "./config/decisions.js";
import type { CorralConfig, ModelConfig } from "./config/schema.js";
import { loadPolicy } from "./policies.js";
import { startingAs } from "./start-errors.js";

/** One thread of a model. */
export interface ServerWorker {
  readonly name: string;
  readonly ref: ActorRef<ModelServer>;
  readonly url: string;
}

export interface Serving {
  readonly store: ActorRef<CaptureStore> | undefined;
  /** Model name → its workers. */
  readonly servers: ReadonlyMap<string, readonly ServerWorker[]>;
  /** Digest of each model's embedded policy; null for another engine. */
  readonly digests: readonly (string | null)[];
  /** Signs the rollout keys; lives in memory only. */
  readonly keySecret: Uint8Array;
}

export interface ServingRequest {
  readonly config: CorralConfig;
  readonly decisions: CaptureDecisions;
  /** Folder of the store. */
  readonly dir: string;
}

/** Order of the end: producers first. */
export const STAGE = { harness: 0, server: 1, consumer: 2, store: 3 } as const;
export const SHUTDOWN_DEADLINE_MS = 15_000;
/** Store and servers serve many rollouts at a time; their work is short or waits on something else. */
export const SHARED_CONCURRENCY = 256;
/** The store has no state but its file, so another thread goes on where one died. */
const STORE_RESTARTS = 3;
/** What a model server counted is lost with its thread, which masks the rollouts that it served; the run goes on. */
const SERVER_RESTARTS = 3;
/** Buffers do not count. Garbage grows with the limit: with V8's 4 GiB a worker keeps 40 MB more of it. */
const SERVER_HEAP_MIB = 2048;

/** @throws ConfigError naming the key, or the error of the actor that did not start. */
export async function startServing(runtime: Runtime, request: ServingRequest): Promise<Serving> {
  const { config, decisions } = request;
  const keySecret = new Uint8Array(randomBytes(32));
  const store =
    decisions.target.kind === "store"
      ? await startingAs("token_id_capture.dir", () =>
          runtime.spawn(
            captureStore,
            { dir: request.dir, allowNetworkFs: config.token_id_capture.allow_network_fs },
            {
              name: "capture-store",
              maxConcurrency: SHARED_CONCURRENCY,
              maxRestarts: STORE_RESTARTS,
              stopStage: STAGE.store,
            },
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
  const served = await Promise.all(models);
  return {
    store,
    servers: new Map(served.map(({ name, workers }) => [name, workers])),
    digests: served.map(({ digest }) => digest),
    keySecret,
  };
}

function serverCapture(decisions: CaptureDecisions, store: ActorRef<CaptureStore> | undefined) {
  if (store !== undefined) return { kind: "store" as const, store };
  const { target } = decisions;
  if (target.kind !== "module") return { kind: "off" as const };
  const { source: _consumers, ...capture } = target;
  return capture;
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
        maxRestarts: SERVER_RESTARTS,
        stopStage: STAGE.server,
        maxHeapMiB: SERVER_HEAP_MIB,
      };
      const boundPort = runtime.put(new Int32Array(1));
      const ref = await startingAs(`responses_api_models.${model}.engine`, () =>
        runtime.spawn(modelServer, { ...options, workerIndex, boundPort }, spawnOptions),
      );
      const { url } = await ref.call.address();
      return { name, ref, url };
    }),
  );
}
