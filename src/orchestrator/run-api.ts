/** What a training loop sees of a run: types only. */
import type { ActorLogger } from "../runtime/index.js";
import type { PolicyPush } from "./policy-update.js";
import type { Rollout, RolloutGroup } from "./rollout-group.js";
import type { RunStats } from "./run-counts.js";
import type { RunEventListener } from "./run-events.js";
import type { TasksInput } from "./tasks.js";

export interface LaunchOptions {
  /**
   * The run's folder within `dir`. A launch with the same name goes on with the same run: another experiment needs another
   * name. @default "loop"
   */
  readonly name?: string;
  /** Folder of runs. Default: `token_id_capture.dir`. */
  readonly dir?: string;
  /** Folder that relative verifiers are resolved against. Default: the working directory. */
  readonly folder?: string;
  /** Gets the actors' records. Default: JSON lines on stderr. */
  readonly logger?: ActorLogger;
  /** Contract: must not throw. Default: warnings go to the logger, or to stderr. */
  readonly onEvent?: RunEventListener;
}

export interface RolloutGroupsOptions {
  /** Rollouts of each task. Default: `rollout.group_size`. */
  readonly groupSize?: number;
  /** Rollouts at a time, at most what the agents' `concurrency` allows together. */
  readonly concurrency?: number;
  /** A rollout whose oldest call is more policy versions behind is not trainable (`STALE_POLICY`). Default: no limit. */
  readonly maxPolicyLag?: number;
  /** Aborted: what runs is cancelled and the iteration throws the reason. */
  readonly signal?: AbortSignal;
}

/** The API that a harness speaks, as `baseUrl` needs it. */
export type BaseUrlDialect = "messages" | "chat_completions" | "responses";

/** A rollout outside of a group. */
export interface SingleRollout extends Rollout, Pick<RolloutGroup, "accept" | "reject"> {}

/** A launched run. `await using`. */
export interface Run extends AsyncDisposable {
  /** Folder of this run: store, journal, metrics. */
  readonly dir: string;
  /** URL of `/metrics`; undefined without `metrics.port`. */
  readonly metricsUrl: string | undefined;
  /** Model name → base URLs of its workers. */
  readonly urls: Readonly<Record<string, readonly string[]>>;
  /** Version of the weights that new calls meet. */
  readonly policyVersion: number;
  /**
   * One walk over the tasks. Groups come when they are full, in no order; leaving the iteration cancels its harnesses.
   * The first call goes on with what an earlier process left (N1).
   * @throws TASK_INVALID for a task that may not run; RUN_STOPPED when more rows are masked than `max_mask_fraction` or
   *   `rollout.deadline_s` is over; the failure of what records or delivers rollouts.
   */
  rolloutGroups(tasks: TasksInput, options?: RolloutGroupsOptions): AsyncGenerator<RolloutGroup>;
  /** One rollout of one task. @throws as `rolloutGroups`. */
  rollout(
    task: unknown,
    options?: Pick<RolloutGroupsOptions, "signal" | "maxPolicyLag">,
  ): Promise<SingleRollout>;
  /** Where a running rollout calls; with `/v1` for the OpenAI dialects, whose clients do not add it. @throws RangeError when it does not run. */
  baseUrl(rolloutId: string, dialect: BaseUrlDialect): string;
  /**
   * Replaces the weights of a model: every worker acknowledges that an update is on its way, `push` puts the weights in
   * place (for the embedded engine it returns them), every worker acknowledges the version.
   * @throws RangeError when the version does not grow; what `push` threw, then the version stays.
   */
  updatePolicy(
    version: number,
    push: PolicyPush,
    options?: { readonly model?: string },
  ): Promise<void>;
  /** Counts of this process. */
  stats(): RunStats;
  /** Ends a step: its counts and what the trainer adds go to metrics.jsonl and `/metrics`. */
  report(values?: Readonly<Record<string, number>>): void;
  /** What `await using` does at the end (N3), for programs without it. Idempotent. */
  close(): Promise<void>;
}
