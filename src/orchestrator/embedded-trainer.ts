/**
 * Trains the embedded policy from the rows of a run, in a thread of its own.
 *
 * D1. Only what was captured is trained on: ids and log probabilities of the rows, sampled at temperature 1 without
 *     filters. Rows sampled otherwise are refused: their log probabilities are of another distribution.
 */
import {
  type PolicyTrainer,
  type PolicyTrainerOptions,
  policyTrainer,
  type RolloutRow,
  type TrainingStep,
} from "../actors/index.js";
import type { PolicySnapshot, RolloutCall, ScoredRollout } from "../embedded-policy/index.js";
import { type ActorLogger, type ActorRef, createRuntime, type Runtime } from "../runtime/index.js";
import { checkRow, type GeneratedItem } from "./verify-row.js";

export interface TrainerOptions extends PolicyTrainerOptions {
  readonly logger?: ActorLogger;
}

/** Starts a trainer. @throws PolicyError when the file to resume from is damaged or too new. */
export async function createTrainer({ logger, ...options }: TrainerOptions = {}): Promise<Trainer> {
  const runtime = await createRuntime(logger && { logger });
  try {
    const ref = await runtime.spawn(policyTrainer, options, { name: "policy-trainer" });
    return new Trainer(runtime, ref, await ref.call.state());
  } catch (error) {
    await runtime.shutdown({ deadlineMs: SHUTDOWN_DEADLINE_MS });
    throw error;
  }
}

const SHUTDOWN_DEADLINE_MS = 5000;

export class Trainer implements AsyncDisposable {
  readonly #runtime: Runtime;
  readonly #ref: ActorRef<PolicyTrainer>;
  #snapshot: PolicySnapshot;
  /** What `save` kept with the weights that training was resumed from; null on a fresh start. */
  readonly notes: unknown;

  /** @internal Use `createTrainer`. */
  constructor(
    runtime: Runtime,
    ref: ActorRef<PolicyTrainer>,
    state: { readonly snapshot: PolicySnapshot; readonly notes: unknown },
  ) {
    this.#runtime = runtime;
    this.#ref = ref;
    this.#snapshot = state.snapshot;
    this.notes = state.notes;
  }

  /** The weights after the last step. */
  get snapshot(): PolicySnapshot {
    return this.#snapshot;
  }

  /**
   * Adds the trainable rows of one group to the next step. `rewardOf` may shape the reward; by default it is the row's.
   * @throws RangeError naming the rollout whose row cannot be trained on (D1).
   */
  async accumulate(
    rows: readonly RolloutRow[],
    rewardOf: (row: RolloutRow) => number = (row) => row.reward ?? Number.NaN,
  ): Promise<void> {
    await this.accumulateRollouts(rows.map((row) => scoredRollout(row, rewardOf(row))));
  }

  /** Adds one group that the caller made of calls itself. @throws RangeError when a reward is not finite. */
  async accumulateRollouts(rollouts: readonly ScoredRollout[]): Promise<void> {
    if (rollouts.length > 0) await this.#ref.call.accumulate(rollouts);
  }

  /** One update on what was added since the last. @throws PolicyError `OFF_GRAMMAR`. */
  async step(): Promise<TrainingStep> {
    const step = await this.#ref.call.step();
    this.#snapshot = step.snapshot;
    return step;
  }

  /** Weights, optimiser and notes (JSON) in one file, durable when it resolves. */
  save(path: string, notes: unknown = null): Promise<void> {
    return this.#ref.call.save(path, notes);
  }

  async close(): Promise<void> {
    await this.#runtime.shutdown({ deadlineMs: SHUTDOWN_DEADLINE_MS });
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

/** The calls of a row as a trainer reads them. @throws RangeError naming the rollout (D1). */
function scoredRollout(row: RolloutRow, reward: number): ScoredRollout {
  const { faults, items } = checkRow(row);
  const [fault] = faults;
  if (fault !== undefined) throw new RangeError(`rollout ${row._ng_rollout_id}: ${fault}`);
  return { reward, calls: items.map((item) => rolloutCall(item, row._ng_rollout_id)) };
}

function rolloutCall(item: GeneratedItem, rolloutId: string): RolloutCall {
  const { temperature = 1, top_p: topP = 1, top_k: topK = 0 } = item.sampling;
  if (temperature !== 1 || topP !== 1 || topK !== 0)
    throw new RangeError(
      `rollout ${rolloutId} was sampled with temperature ${String(temperature)}, top_p ${String(topP)}, top_k ${String(topK)}; allowed: 1, 1, 0`,
    );
  return {
    promptIds: item.promptIds,
    tokenIds: item.generationIds,
    logProbs: Float64Array.from(item.logProbs),
  };
}
