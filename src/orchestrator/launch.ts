/**
 * Corral inside a training loop: `launch` starts the actors of a config, the run gives groups of rollouts and takes new
 * weights.
 *
 * N1. At-least-once by slot: what was finished and not accepted when a process died comes again in the next one with the
 *     same name; a trainer that keeps the slots it has trained with its weights trains nothing twice.
 * N2. Weights change between two model calls, never within one; a call that may have met both carries both versions.
 * N3. Disposing cancels what runs and stops the actors.
 */
import type { ActorLogger } from "../runtime/index.js";
import { captureDecisions } from "./config/decisions.js";
import type { CorralConfig } from "./config/schema.js";
import { ConfigError } from "./errors.js";
import { installedTokenSource } from "./installed-source.js";
import type { PolicyPush } from "./policy-update.js";
import { groupOf, type RolloutGroup, rolloutOf } from "./rollout-group.js";
import { rolloutUrl } from "./rollout-runner.js";
import type {
  BaseUrlDialect,
  LaunchOptions,
  RolloutGroupsOptions,
  Run,
  SingleRollout,
} from "./run-api.js";
import { type GroupsRequest, RunCore } from "./run-core.js";
import type { RunStats } from "./run-counts.js";
import { openLoopDirectory } from "./run-directory.js";
import type { RunEventListener } from "./run-events.js";
import { RunHealth } from "./run-health.js";
import { RunMetrics, type RunState } from "./run-metrics.js";
import { RunStoppedError } from "./run-stop.js";
import { StopWatch } from "./stop-watch.js";
import { loadTasks, type TasksInput } from "./tasks.js";

/**
 * Starts what the config names.
 * @throws ConfigError for what the user must mend; RUN_LOCKED when another process has the run.
 */
export async function launch(config: CorralConfig, options: LaunchOptions = {}): Promise<Run> {
  const { name = "loop", folder, logger } = options;
  const { onEvent = warningsTo(logger) } = options;
  const decisions = captureDecisions(config, installedTokenSource() !== undefined);
  const [conflict] = decisions.errors;
  if (conflict !== undefined) throw conflict;
  const { target } = decisions;
  const baseDir = options.dir ?? (target.kind === "store" ? target.dir : undefined);
  if (baseDir === undefined)
    throw new ConfigError(
      "RUN_DIRECTORY",
      "launch: dir",
      "is missing beside a config without store",
    );
  const directory = openLoopDirectory(baseDir, name);
  try {
    const metrics = await RunMetrics.open(directory.dir, config.metrics);
    const watch = new StopWatch(config);
    const health = new RunHealth(onEvent, decisions.rebuild);
    for (const message of decisions.warnings) onEvent({ kind: "warning", message });
    const core = await RunCore.start({
      config,
      decisions,
      ...directory,
      ...(logger && { logger }),
      onEvent: (event) => {
        metrics.see(event);
        watch.see(event);
        onEvent(event);
        health.see(event);
      },
    });
    return new LaunchedRun({ config, core, metrics, watch, folder, directory });
  } catch (error) {
    directory.release();
    throw error;
  }
}

interface RunParts {
  readonly config: CorralConfig;
  readonly core: RunCore;
  readonly metrics: RunMetrics;
  readonly watch: StopWatch;
  readonly folder: string | undefined;
  readonly directory: { readonly dir: string; release(): void };
}

class LaunchedRun implements Run {
  readonly #parts: RunParts;
  readonly #streams = new Set<{ fail(error: unknown): void }>();
  #policyVersion = 0;
  #closed: Promise<void> | undefined;

  constructor(parts: RunParts) {
    this.#parts = parts;
    parts.watch.attach({ stop: () => this.#stop() }, undefined);
  }

  get dir(): string {
    return this.#parts.directory.dir;
  }

  get metricsUrl(): string | undefined {
    return this.#parts.metrics.url;
  }

  get policyVersion(): number {
    return this.#policyVersion;
  }

  get urls(): Readonly<Record<string, readonly string[]>> {
    const { servers } = this.#parts.core.actors;
    return Object.fromEntries([...servers].map(([model, of]) => [model, of.map(({ url }) => url)]));
  }

  rolloutGroups(
    tasks: TasksInput,
    options: RolloutGroupsOptions = {},
  ): AsyncGenerator<RolloutGroup> {
    return this.#groups(tasks, options, false);
  }

  async rollout(
    task: unknown,
    options: Pick<RolloutGroupsOptions, "signal" | "maxPolicyLag"> = {},
  ): Promise<SingleRollout> {
    for await (const group of this.#groups([task], { ...options, groupSize: 1 }, true)) {
      const [only] = group.rollouts;
      if (only !== undefined) return { ...only, accept: group.accept, reject: group.reject };
    }
    throw new Error("the run was stopped before the rollout ended");
  }

  async *#groups(
    tasks: TasksInput,
    options: RolloutGroupsOptions,
    apart: boolean,
  ): AsyncGenerator<RolloutGroup> {
    const { core, metrics } = this.#parts;
    const { maxPolicyLag, signal } = options;
    signal?.throwIfAborted();
    const { stream, pass } = await core.passGroups(await this.#request(tasks, options, apart));
    this.#streams.add(stream);
    this.#stop();
    const onAbort = () => stream.fail(signal?.reason);
    signal?.addEventListener("abort", onAbort, { once: true });
    let done = false;
    try {
      for await (const { about, reports } of stream) {
        const rules = { policyVersion: this.#policyVersion, maxPolicyLag };
        const rollouts = reports.map((report) => rolloutOf(report, rules));
        for (const one of rollouts) metrics.deliver(one);
        yield groupOf(about, rollouts, core.actors.consumer.call);
      }
      done = true;
    } finally {
      signal?.removeEventListener("abort", onAbort);
      this.#streams.delete(stream);
      core.end(stream, done ? undefined : pass);
    }
  }

  async #request(
    tasks: TasksInput,
    options: RolloutGroupsOptions,
    apart: boolean,
  ): Promise<GroupsRequest> {
    const { config, folder } = this.#parts;
    const { groupSize = config.rollout.group_size, concurrency } = options;
    checkCount("groupSize", groupSize);
    if (concurrency !== undefined) checkCount("concurrency", concurrency);
    const rollout = { ...config.rollout, group_size: groupSize };
    const { tasks: checked } = await loadTasks(tasks, { ...config, rollout }, folder);
    const limit = concurrency === undefined ? {} : { concurrency };
    return { tasks: checked, groupSize, apart, ...limit };
  }

  baseUrl(rolloutId: string, dialect: BaseUrlDialect): string {
    const running = this.#parts.core.runner.running(rolloutId);
    if (running === undefined) throw new RangeError(`rollout ${rolloutId} does not run`);
    const url = rolloutUrl(running.worker, rolloutId, running.captured);
    return dialect === "messages" ? url : `${url}/v1`;
  }

  async updatePolicy(
    version: number,
    push: PolicyPush,
    { model }: { readonly model?: string } = {},
  ): Promise<void> {
    await this.#parts.core.policies.update(version, push, model);
    this.#policyVersion = version;
  }

  get #state(): RunState {
    const { runner, pendingCount: pending } = this.#parts.core;
    return { running: runner.runningCount, pending, policyVersion: this.#policyVersion };
  }

  stats(): RunStats {
    return this.#parts.metrics.stats(this.#state);
  }

  report(values: Readonly<Record<string, number>> = {}): void {
    this.#parts.metrics.step(this.#state, values);
  }

  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** Too many masked rows, or the deadline: nothing goes on that a trainer could wait for. */
  #stop(): void {
    const { stop } = this.#parts.watch;
    if (stop === null) return;
    for (const stream of this.#streams) stream.fail(new RunStoppedError(stop));
  }

  async #close(): Promise<void> {
    const { core, metrics, watch, directory } = this.#parts;
    watch.detach();
    try {
      await core[Symbol.asyncDispose]();
      await metrics.close();
    } finally {
      directory.release();
    }
  }
}

/** Signs that a run is not what it seems reach a loop that listens to no event. */
function warningsTo(logger: ActorLogger | undefined): RunEventListener {
  return (event) => {
    if (event.kind !== "warning") return;
    if (logger === undefined) process.stderr.write(`corral: ${event.message}\n`);
    else logger.warn({}, event.message);
  };
}

function checkCount(name: string, value: number): void {
  if (Number.isSafeInteger(value) && value >= 1) return;
  throw new RangeError(`rolloutGroups: ${name} is ${value}; allowed: a whole number from 1`);
}
