/**
 * One config into running actors: the capture store, the model servers, one harness actor for each agent, the consumer.
 *
 * L1. A start that fails stops what was started before it.
 * L2. Shutdown goes producers first: harnesses, servers, consumer, store.
 */
import { type AgentHarness, type AgentHarnessOptions, agentHarness } from "../actors/index.js";
import { type ActorLogger, type ActorRef, createRuntime, type Runtime } from "../runtime/index.js";
import type { CaptureDecisions } from "./config/decisions.js";
import type { AgentConfig, CorralConfig } from "./config/schema.js";
import { resolveModuleExport } from "./modules.js";
import { type RemoteServing, startRemote } from "./remote-serving.js";
import { type RunConsumer, startConsumer } from "./run-consumer.js";
import {
  type Serving,
  SHARED_CONCURRENCY,
  SHUTDOWN_DEADLINE_MS,
  STAGE,
  startServing,
} from "./serving.js";
import { startingAs } from "./start-errors.js";

/** The actors of a run. `await using`. */
export interface RunActors extends AsyncDisposable, Serving {
  /** Agent name → its harness actor. */
  readonly harnesses: ReadonlyMap<string, ActorRef<AgentHarness>>;
  readonly consumer: RunConsumer;
}

export interface StartRequest {
  readonly config: CorralConfig;
  readonly decisions: CaptureDecisions;
  /** Folder of the store. */
  readonly dir: string;
  readonly journalPath: string;
  /** The file of rows; without it a trainer takes them. */
  readonly outPath?: string;
  /** A server of another process serves in place of our own. */
  readonly remote?: RemoteServing;
  /** Gets the actors' records. Default: JSON lines on stderr. */
  readonly logger?: ActorLogger;
}

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
  const { config, decisions, remote } = request;
  const agents = Object.entries(config.responses_api_agents).map(
    async ([name, agent]) => [name, await startHarness(runtime, name, agent)] as const,
  );
  const [serving, started] = await Promise.all([
    remote === undefined ? startServing(runtime, request) : startRemote(runtime, remote),
    Promise.all(agents),
  ]);
  const { store, servers, digests } = serving;
  const consumer = await startingAs("token_id_capture.source", () =>
    startConsumer(
      runtime,
      {
        journalPath: request.journalPath,
        ...(request.outPath === undefined ? {} : { outPath: request.outPath }),
        ...(store === undefined ? {} : { store }),
        ...sourceOf(decisions),
        servers: [...servers.values()].flat().map(({ ref }) => ref),
        rebuildResponse: decisions.rebuild,
        rows: rowOptions(config),
        ...namedPolicy(new Set(digests)),
      },
      { name: "rollout-consumer", maxConcurrency: SHARED_CONCURRENCY, stopStage: STAGE.consumer },
      request.logger,
    ),
  );
  return {
    ...serving,
    harnesses: new Map(started),
    consumer,
    [Symbol.asyncDispose]: async () => {
      await runtime.shutdown({ deadlineMs: SHUTDOWN_DEADLINE_MS });
      await consumer.close();
    },
  };
}

function rowOptions({ token_id_capture: block }: CorralConfig) {
  return {
    delivery: block.delivery,
    outputForm: block.output_form,
    trainedPurposes: block.trained_purposes,
  };
}

/** A user's source goes with a user's sink; our store is its own. */
function sourceOf({ target, rebuild }: CaptureDecisions) {
  if (target.kind !== "module" || target.source === undefined || !rebuild) return {};
  return { source: target.source };
}

/** Rows name the weights only where one name is true of all of them. */
function namedPolicy(digests: ReadonlySet<string | null>) {
  const [checkpoint_digest, ...others] = digests;
  if (typeof checkpoint_digest !== "string" || others.length > 0) return {};
  return { policy: { kind: "embedded", checkpoint_digest } };
}

async function startHarness(
  runtime: Runtime,
  name: string,
  agent: AgentConfig,
): Promise<ActorRef<AgentHarness>> {
  const spawnOptions = {
    name: `agent-harness-${name}`,
    maxConcurrency: agent.concurrency,
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
      const { kind, isolation = "none", env, readable } = agent;
      const [program = "", ...args] = agent.command;
      return { kind, isolation, env, readable, command: [program, ...args] };
    }
    case "claude_code":
    case "claude_agent_sdk": {
      const { kind, isolation = "none", binary, tools, compact_at_tokens: compactAtTokens } = agent;
      return { kind, isolation, binary, tools, compactAtTokens };
    }
    case "codex": {
      const { kind, isolation = "none", binary } = agent;
      return { kind, isolation, binary };
    }
    case "opencode":
    case "pi": {
      const { kind, isolation = "none", binary, tools } = agent;
      return { kind, isolation, binary, tools };
    }
  }
}
