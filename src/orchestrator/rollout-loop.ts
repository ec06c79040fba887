/**
 * Walks the slots of a run: at most `concurrency` rollouts of an agent at a time, each from `begin` to a durable row.
 *
 * O1. One row for each slot: a slot is delivered once, cancelled or left for a later start.
 * O2. A failure of a rollout is a row; a failure of what records or delivers rollouts stops the run.
 * O3. A new attempt has a new id. The given-up attempt is sealed and frozen first, so that a late call of it is refused.
 * O4. After a stop no rollout starts; those that run end by themselves, or are cancelled when the stop says so.
 */
import { type FinishedRollout, type RolloutSlot, rolloutKey } from "../actors/index.js";
import type { AgentConfig, CorralConfig } from "./config/schema.js";
import type { LaunchedRun, ServerWorker } from "./launch.js";
import { rolloutIdOf, slotKey } from "./rollout-ids.js";
import type { RunEventListener } from "./run-events.js";
import type { CheckedTask } from "./tasks.js";

export interface RolloutLoopParts {
  readonly config: CorralConfig;
  readonly run: LaunchedRun;
  readonly tasks: ReadonlyMap<number, CheckedTask>;
  /** Agent name → its rollouts are captured. */
  readonly selected: Readonly<Record<string, boolean>>;
  /** `slotKey` → first attempt number of this process. */
  readonly firstAttempts: ReadonlyMap<string, number>;
  readonly onEvent: RunEventListener;
}

export class RolloutLoop {
  readonly #parts: RolloutLoopParts;
  /** Model name → rollouts that were given a worker. */
  readonly #turns = new Map<string, number>();
  #stopped = false;
  #failure: Error | undefined;

  constructor(parts: RolloutLoopParts) {
    this.#parts = parts;
  }

  /** Resolves when every slot has a row or the loop was stopped. @throws the first failure of O2. */
  async run(slots: readonly RolloutSlot[]): Promise<void> {
    const queues = new Map<string, RolloutSlot[]>();
    for (const slot of slots) {
      const { agent } = this.#taskOf(slot);
      queues.set(agent, [...(queues.get(agent) ?? []), slot]);
    }
    const walkers = [...queues].flatMap(([name, queue]) =>
      Array.from({ length: this.#agent(name).concurrency }, () => this.#walk(queue)),
    );
    await Promise.all(walkers);
    if (this.#failure !== undefined) throw this.#failure;
  }

  /** O4. Idempotent. */
  async stop({ cancel }: { readonly cancel: boolean }): Promise<void> {
    this.#stopped = true;
    if (!cancel) return;
    await Promise.allSettled(
      [...this.#parts.run.harnesses.values()].map((harness) => harness.call.cancelAll()),
    );
  }

  async #walk(queue: RolloutSlot[]): Promise<void> {
    while (!this.#stopped) {
      const slot = queue.shift();
      if (slot === undefined) return;
      try {
        await this.#runSlot(slot);
      } catch (error) {
        this.#failure ??= error instanceof Error ? error : new Error(String(error)); // O2
        await this.stop({ cancel: true });
      }
    }
  }

  async #runSlot(slot: RolloutSlot): Promise<void> {
    const { onEvent, config } = this.#parts;
    const first = this.#parts.firstAttempts.get(slotKey(slot)) ?? 0;
    const last = first + config.rollout.max_attempts - 1;
    for (let attempt = first; ; attempt++) {
      const finished = await this.#attempt(slot, attempt);
      const { rolloutId } = finished;
      const { failure } = finished.outcome;
      if (failure?.code === "CANCELLED") {
        onEvent({ kind: "rollout_cancelled", slot, rolloutId });
        return; // O1
      }
      if (failure === null || !failure.retryable || attempt >= last) {
        await this.#deliver(finished);
        return;
      }
      await this.#giveUp(finished);
      if (this.#stopped) {
        onEvent({ kind: "rollout_cancelled", slot, rolloutId });
        return;
      }
      onEvent({ kind: "rollout_retry", slot, rolloutId, failure });
    }
  }

  async #attempt(slot: RolloutSlot, attempt: number): Promise<FinishedRollout> {
    const { run, selected, onEvent } = this.#parts;
    const { task, agent: agentName, verifier } = this.#taskOf(slot);
    const agent = this.#agent(agentName);
    const harness = required(run.harnesses.get(agentName), agentName);
    const captured = selected[agentName] === true;
    const rolloutId = rolloutIdOf(task, slot, attempt);
    await run.consumer.call.begin({ slot, attempt, rolloutId });
    const { epoch } =
      captured && run.store !== undefined ? await run.store.call.open(rolloutId) : { epoch: 0 };
    await Promise.all(
      this.#workers(agent.model).map(({ ref }) =>
        ref.call.openRollout({ rolloutId, epoch, captured }),
      ),
    );
    onEvent({ kind: "rollout_start", slot, rolloutId, attempt });
    const segment = captured ? "/training-token-capture" : "";
    const outcome = await harness.call.run({
      rolloutId,
      task,
      baseUrl: `${this.#nextWorker(agent.model).url}/ng-rollout/${rolloutId}${segment}`,
      apiKey: rolloutKey(run.keySecret, rolloutId, epoch),
      model: agent.model,
      ...(verifier === undefined ? {} : { verifier }),
      timeoutMs: Math.round(agent.timeout_s * 1000),
      maxTurns: agent.max_turns,
    });
    return { slot, attempt, rolloutId, captured, task, model: agent.model, outcome };
  }

  /** O2: a rollout without a durable row may not be counted as done, so the run stops. */
  async #deliver(finished: FinishedRollout): Promise<void> {
    const { slot, attempt, rolloutId, outcome } = finished;
    const report = await this.#parts.run.consumer.call.deliver(finished);
    if (report.error?.code === "DELIVERY_ERROR")
      throw new Error(`${rolloutId} could not be delivered: ${report.error.message}`);
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
  }

  /** O3. */
  async #giveUp({ rolloutId, captured, model }: FinishedRollout): Promise<void> {
    await Promise.all(this.#workers(model).map(({ ref }) => ref.call.sealRollout(rolloutId)));
    const { store } = this.#parts.run;
    if (captured && store !== undefined) await store.call.freeze(rolloutId);
  }

  #taskOf(slot: RolloutSlot): CheckedTask {
    return required(this.#parts.tasks.get(slot.taskIndex), `task ${slot.taskIndex}`);
  }

  #agent(name: string): AgentConfig {
    return required(this.#parts.config.responses_api_agents[name], name);
  }

  #workers(model: string): readonly ServerWorker[] {
    return required(this.#parts.run.servers.get(model), model);
  }

  /** Round robin; a rollout keeps its worker, whose prefix cache it fills. */
  #nextWorker(model: string): ServerWorker {
    const workers = this.#workers(model);
    const turn = this.#turns.get(model) ?? 0;
    this.#turns.set(model, turn + 1);
    return required(workers[turn % workers.length], model);
  }
}

function required<T>(value: T | undefined, name: string): T {
  if (value === undefined) throw new RangeError(`the run has no ${name}`);
  return value;
}
