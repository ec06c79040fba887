/**
 * Runs one rollout of a slot from `begin` to its delivery.
 *
 * O1. A slot is delivered once, or cancelled and left for a later start.
 * O2. A failure of a rollout is a result; a failure of what records or delivers rollouts is thrown.
 * O3. A new attempt has a new id. A given-up or cancelled attempt is sealed, and its store abandons it: a late call of it
 *     is refused, and what it recorded never looks complete.
 * O4. After an abort no attempt starts and the running one is cancelled.
 * O5. An attempt is journaled before its id is opened anywhere: an id that a store knows and the journal does not would
 *     be given out again, and refused at every later start.
 */
import {
  type DeliveryReport,
  type FinishedRollout,
  type HarnessOutcome,
  type RolloutOpening,
  type RolloutSlot,
  rolloutKey,
} from "../actors/index.js";
import type { AgentConfig, CorralConfig } from "./config/schema.js";
import { ConfigError } from "./errors.js";
import { pruneMasked } from "./masked-evidence.js";
import type { PolicyUpdates } from "./policy-update.js";
import { rolloutIdOf } from "./rollout-ids.js";
import type { RunActors } from "./run-actors.js";
import type { RunEventListener } from "./run-events.js";
import type { ServerWorker } from "./serving.js";
import type { CheckedTask } from "./tasks.js";

export interface RunnerParts {
  readonly config: CorralConfig;
  readonly actors: RunActors;
  readonly policies: PolicyUpdates;
  /** Agent name → its rollouts are captured. */
  readonly selected: Readonly<Record<string, boolean>>;
  readonly onEvent: RunEventListener;
}

/** One slot to run. */
export interface SlotJob {
  readonly slot: RolloutSlot;
  readonly checked: CheckedTask;
  /** Number of the first attempt: earlier ones belong to a process that died. */
  readonly firstAttempt: number;
  readonly signal: AbortSignal;
  /** True: no further attempt, but the running one ends by itself. */
  readonly isStopped: () => boolean;
}

/** A rollout that runs. */
export interface RunningRollout {
  readonly agent: string;
  readonly captured: boolean;
  readonly worker: ServerWorker;
}

type Attempted = Omit<FinishedRollout, "outcome">;

const CANCELLED: HarnessOutcome = {
  completed: false,
  finalText: null,
  finalMessageId: null,
  reward: null,
  failure: { code: "CANCELLED", message: "cancelled before its harness began", retryable: false },
  exitCode: null,
  stderrTail: "",
  wallMs: 0,
};

export class RolloutRunner {
  readonly #parts: RunnerParts;
  /** Model name → rollouts that were given a worker. */
  readonly #turns = new Map<string, number>();
  readonly #running = new Map<string, RunningRollout>();
  /** Rollouts that were delivered masked: their records are evidence. */
  readonly #masked = new Set<string>();

  constructor(parts: RunnerParts) {
    this.#parts = parts;
  }

  running(rolloutId: string): RunningRollout | undefined {
    return this.#running.get(rolloutId);
  }

  get runningCount(): number {
    return this.#running.size;
  }

  /** The delivery, or undefined when the rollout was cancelled (O1). @throws the failure of O2. */
  async run(job: SlotJob): Promise<DeliveryReport | undefined> {
    const { slot, firstAttempt } = job;
    const { onEvent, config } = this.#parts;
    const last = firstAttempt + config.rollout.max_attempts - 1;
    for (let attempt = firstAttempt; ; attempt++) {
      if (job.signal.aborted) return undefined;
      const finished = await this.#attempt(job, attempt);
      const { rolloutId } = finished;
      const { failure } = finished.outcome;
      const cancelled = failure?.code === "CANCELLED";
      if (!cancelled && (failure === null || !failure.retryable || attempt >= last))
        return this.#deliver(finished);
      await this.#giveUp(finished); // O3
      if (cancelled || job.isStopped()) {
        onEvent({ kind: "rollout_cancelled", slot, rolloutId });
        return undefined;
      }
      onEvent({ kind: "rollout_retry", slot, rolloutId, failure });
    }
  }

  /**
   * The rollout's epoch.
   * @throws ConfigError INVALID_VALUE when a store or a worker knows the id: two runs on one server are never mixed.
   */
  async #open(model: string, rolloutId: string, captured: boolean): Promise<number> {
    const { store } = this.#parts.actors;
    try {
      const { epoch } =
        captured && store !== undefined ? await store.call.open(rolloutId) : { epoch: 0 };
      const opening = { rolloutId, epoch, captured };
      await Promise.all(this.#workers(model).map((worker) => this.#openOn(worker, model, opening)));
      return epoch;
    } catch (error) {
      if ((error as { code?: unknown }).code !== "ROLLOUT_EXISTS") throw error;
      throw new ConfigError(
        "INVALID_VALUE",
        "_ng_rollout_id",
        `${JSON.stringify(rolloutId)} was opened on this server before, by another run; give the tasks other ids, or the run a server of its own`,
        { cause: error },
      );
    }
  }

  async #attempt(job: SlotJob, attempt: number): Promise<FinishedRollout> {
    const { slot, checked, signal } = job;
    const { actors, selected, onEvent } = this.#parts;
    const { task, agent: agentName, verifier } = checked;
    const agent = this.#agent(agentName);
    const harness = required(actors.harnesses.get(agentName), agentName);
    const captured = selected[agentName] === true;
    const rolloutId = rolloutIdOf(task, slot, attempt);
    await actors.consumer.call.begin({ slot, attempt, rolloutId }); // O5
    const epoch = await this.#open(agent.model, rolloutId, captured);
    onEvent({ kind: "rollout_start", slot, rolloutId, attempt });
    const worker = this.#nextWorker(agent.model);
    this.#running.set(rolloutId, { agent: agentName, captured, worker });
    const attempted = { slot, attempt, rolloutId, captured, task, model: agent.model };
    const onAbort = () => this.#cancel(agentName, rolloutId);
    signal.addEventListener("abort", onAbort, { once: true });
    try {
      // Aborted while it was journaled and opened: O4.
      if (signal.aborted) return { ...attempted, outcome: CANCELLED };
      const outcome = await harness.call.run({
        rolloutId,
        task,
        baseUrl: rolloutUrl(worker, rolloutId, captured),
        apiKey: rolloutKey(actors.keySecret, rolloutId, epoch),
        model: agent.model,
        ...(verifier === undefined ? {} : { verifier }),
        timeoutMs: Math.round(agent.timeout_s * 1000),
        maxTurns: agent.max_turns,
      });
      return { ...attempted, outcome };
    } catch (error) {
      // The harness's thread is gone and the run ends. What stands in the way of that is told by it, not by this.
      await this.#giveUp(attempted).catch(() => undefined);
      throw error;
    } finally {
      signal.removeEventListener("abort", onAbort);
      this.#running.delete(rolloutId);
    }
  }

  /** Any worker may serve a rollout, with the current weights. */
  async #openOn(worker: ServerWorker, model: string, opening: RolloutOpening): Promise<void> {
    const opened = await worker.ref.call.openRollout(opening);
    await this.#parts.policies.bringUp(model, worker, opened);
  }

  /** O2: a rollout without a durable row may not be counted as done, so the run stops. */
  async #deliver(finished: FinishedRollout): Promise<DeliveryReport> {
    const { slot, attempt, rolloutId, outcome } = finished;
    const report = await this.#parts.actors.consumer.call.deliver(finished);
    if (report.error?.code === "DELIVERY_ERROR")
      throw new Error(`${rolloutId} could not be delivered: ${report.error.message}`);
    if (report.masked) {
      this.#masked.add(rolloutId);
      const { config, actors } = this.#parts;
      const gone = await pruneMasked(config, actors, { only: [...this.#masked] });
      for (const one of gone) this.#masked.delete(one);
    }
    this.#parts.onEvent({
      kind: "rollout_end",
      slot,
      rolloutId,
      attempt,
      captured: finished.captured,
      rebuilt: report.rebuilt,
      warnings: report.warnings,
      reward: report.reward,
      masked: report.masked,
      maskReasons: report.maskReasons,
      failure: outcome.failure,
      calls: report.calls,
      generatedTokens: report.tokensCaptured,
      wallMs: outcome.wallMs,
    });
    return report;
  }

  /** O3. A worker that cannot seal is thrown, but the store is told first. */
  async #giveUp({ rolloutId, captured, model }: Attempted): Promise<void> {
    const seals = this.#workers(model).map(({ ref }) => ref.call.sealRollout(rolloutId));
    await Promise.allSettled(seals);
    const { store } = this.#parts.actors;
    if (captured && store !== undefined) await store.call.abandon(rolloutId);
    await Promise.all(seals);
  }

  /** O4. A harness that died answers the rollouts themselves. */
  #cancel(agent: string, rolloutId: string): void {
    const harness = this.#parts.actors.harnesses.get(agent);
    harness?.call.cancel([rolloutId]).catch(() => undefined);
  }

  #agent(name: string): AgentConfig {
    return required(this.#parts.config.responses_api_agents[name], name);
  }

  #workers(model: string): readonly ServerWorker[] {
    return required(this.#parts.actors.servers.get(model), model);
  }

  /** Round robin; a rollout keeps its worker, whose prefix cache it fills. */
  #nextWorker(model: string): ServerWorker {
    const workers = this.#workers(model);
    const turn = this.#turns.get(model) ?? 0;
    this.#turns.set(model, turn + 1);
    return required(workers[turn % workers.length], model);
  }
}

/** Where a rollout's harness calls, without a trailing slash and without `/v1`. */
export function rolloutUrl(worker: ServerWorker, rolloutId: string, captured: boolean): string {
  const segment = captured ? "/training-token-capture" : "";
  return `${worker.url}/ng-rollout/${rolloutId}${segment}`;
}

function required<T>(value: T | undefined, name: string): T {
  if (value === undefined) throw new RangeError(`the run has no ${name}`);
  return value;
}
