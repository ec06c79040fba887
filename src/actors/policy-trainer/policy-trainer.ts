/**
 * GRPO on the embedded policy, in a thread of its own: groups are added, one step takes them all.
 *
 * T1. A step uses recorded ids only, and each call once.
 * T2. A step that fails changes nothing: the groups are kept.
 */
import { existsSync } from "node:fs";
import {
  EmbeddedPolicy,
  groupSamples,
  initialOptimizer,
  learningRateAt,
  loadQwen3Vocabulary,
  loadTrainerState,
  type OptimizerState,
  type PolicySample,
  type PolicySnapshot,
  policyGradientUpdate,
  type ReplayFigures,
  type ScoredRollout,
  saveTrainerState,
  untrainedSnapshot,
} from "../../embedded-policy/index.js";
import type { PolicyTrainerOptions } from "./options.js";

/** What one step did. */
export interface TrainingStep {
  /** The new weights; their version is the step's number. */
  readonly snapshot: PolicySnapshot;
  readonly groups: number;
  /** Groups whose rewards are not all equal: the others teach nothing. */
  readonly mixedGroups: number;
  readonly calls: number;
  readonly learningRate: number;
  readonly figures: ReplayFigures;
  readonly stepMs: number;
}

export class PolicyTrainer {
  readonly #options: PolicyTrainerOptions;
  readonly #policy: EmbeddedPolicy;
  readonly #reference: PolicySnapshot;
  #snapshot: PolicySnapshot;
  #optimizer: OptimizerState;
  #notes: unknown;
  #groups: PolicySample[][] = [];

  constructor(
    options: PolicyTrainerOptions,
    policy: EmbeddedPolicy,
    reference: PolicySnapshot,
    state: { snapshot: PolicySnapshot; optimizer: OptimizerState; notes: unknown },
  ) {
    this.#options = options;
    this.#policy = policy;
    this.#reference = reference;
    this.#snapshot = state.snapshot;
    this.#optimizer = state.optimizer;
    this.#notes = state.notes;
  }

  /** @throws PolicyError when the file to resume from is damaged or too new. */
  static async open(options: PolicyTrainerOptions): Promise<PolicyTrainer> {
    const policy = new EmbeddedPolicy(await loadQwen3Vocabulary());
    const { initial = untrainedSnapshot(), resume } = options;
    const state =
      resume !== undefined && existsSync(resume)
        ? await loadTrainerState(resume)
        : { snapshot: initial, optimizer: initialOptimizer(), notes: null };
    return new PolicyTrainer(options, policy, initial, state);
  }

  /** What is trained now, and what `save` kept beside it. */
  state(): { snapshot: PolicySnapshot; notes: unknown } {
    return { snapshot: this.#snapshot, notes: this.#notes };
  }

  /** Adds a group's trainable rollouts to the next step. @throws RangeError when a reward is not finite. */
  accumulate(group: readonly ScoredRollout[]): void {
    this.#groups.push(groupSamples(group, this.#options.deviationFloor));
  }

  /**
   * One update on all groups since the last (T1).
   * @throws PolicyError `OFF_GRAMMAR` for ids that were not sampled from their prompt (T2).
   */
  step(): TrainingStep {
    const { learningRate = 0.5 } = this.#options;
    const startedAtMs = performance.now();
    const samples = this.#groups.flat();
    const rate = learningRateAt(learningRate, this.#snapshot.version);
    const update = policyGradientUpdate(this.#policy, this.#snapshot, this.#optimizer, samples, {
      ...pick(this.#options, ["entropyBonus", "clip", "klCoefficient"]),
      learningRate: rate,
      reference: this.#reference,
    });
    const mixed = this.#groups.filter((group) => group.some(({ advantage }) => advantage !== 0));
    const groups = this.#groups.length;
    this.#groups = [];
    this.#snapshot = update.snapshot;
    this.#optimizer = update.optimizer;
    return {
      snapshot: update.snapshot,
      groups,
      mixedGroups: mixed.length,
      calls: samples.length,
      learningRate: rate,
      figures: update.figures,
      stepMs: performance.now() - startedAtMs,
    };
  }

  /** Weights, optimiser and the caller's notes in one file, durable when it resolves. */
  async save(path: string, notes: unknown): Promise<void> {
    this.#notes = notes;
    await saveTrainerState(path, {
      snapshot: this.#snapshot,
      optimizer: this.#optimizer,
      notes,
    });
  }
}

/** The options that are given. */
function pick<T extends object, K extends keyof T>(options: T, keys: readonly K[]): Pick<T, K> {
  const given = keys.filter((key) => options[key] !== undefined);
  return Object.fromEntries(given.map((key) => [key, options[key]])) as Pick<T, K>;
}
