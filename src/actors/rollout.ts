/**
 * What the actors say to each other about one rollout. Plain data: every value here can cross a thread.
 */
import { z } from "zod";
import type { OutputItem } from "../capture/index.js";

/** A rollout id as a URL path segment. An id that does not match is refused, never rewritten. */
export const ROLLOUT_ID = /^[A-Za-z0-9][A-Za-z0-9._-]*$/;
export const ROLLOUT_ID_MAX_LENGTH = 200;

/** True when the id may name a rollout. */
export function isRolloutId(id: string): boolean {
  return id.length <= ROLLOUT_ID_MAX_LENGTH && ROLLOUT_ID.test(id);
}

/** One line of tasks.jsonl. Unknown fields are kept: a result row is the task's fields plus what the rollout added. */
export const Task = z.looseObject({
  _ng_task_index: z.number().int().nonnegative(),
  _ng_rollout_id: z.string().optional(),
  agent_ref: z.looseObject({ name: z.string() }).optional(),
  responses_create_params: z.looseObject({
    input: z.union([
      z.string(),
      z.array(z.looseObject({ role: z.string(), content: z.unknown() })).min(1),
    ]),
  }),
  /** Files laid into the rollout's working directory: relative, normalised paths. */
  files: z.record(z.string(), z.string()).optional(),
  /** `module#export`; a relative module is resolved against the tasks file. */
  verifier: z.string().optional(),
  verifier_params: z.unknown().optional(),
});
export type Task = z.infer<typeof Task>;

/** The exactly-once key of a result. */
export interface RolloutSlot {
  readonly pass: number;
  readonly taskIndex: number;
  readonly rolloutIndex: number;
}

/** What an agent-harness actor is asked to do. */
export interface HarnessRequest {
  readonly rolloutId: string;
  readonly task: Task;
  /** With the `/ng-rollout/<id>[/training-token-capture]` prefix, without a trailing slash and without `/v1`. */
  readonly baseUrl: string;
  readonly apiKey: string;
  readonly model: string;
  /** Absolute file URL of the verifier module, resolved by the orchestrator. */
  readonly verifier?: { readonly module: string; readonly exportName: string };
  readonly timeoutMs: number;
  readonly maxTurns: number;
}

/** Why a rollout failed. The boundary that was crossed, nothing finer. */
export interface RolloutFailure {
  readonly code:
    | "MODEL_ERROR"
    | "HARNESS_ERROR"
    | "HARNESS_TIMEOUT"
    | "MAX_TURNS"
    | "VERIFIER_ERROR"
    | "DELIVERY_ERROR"
    | "CANCELLED";
  readonly message: string;
  /** A new attempt may succeed. */
  readonly retryable: boolean;
}

/** What came of a harness run. A bad rollout is data, not a crash. */
export interface HarnessOutcome {
  /** The harness ended by itself and reported no error. */
  readonly completed: boolean;
  /** The final answer, without reasoning; null when there was none. */
  readonly finalText: string | null;
  /** Id of the served message that holds the final answer, when the harness tells it. */
  readonly finalMessageId: string | null;
  /** Null when nothing was verified. */
  readonly reward: number | null;
  readonly failure: RolloutFailure | null;
  readonly exitCode: number | null;
  /** End of the harness's stderr, for people. */
  readonly stderrTail: string;
  readonly wallMs: number;
}

/** What a model server saw of a rollout, kept in memory: the independent count that the snapshot must equal. */
export interface RolloutLedger {
  readonly started: number;
  /** Ids of the calls whose `put` was acknowledged. */
  readonly recordedCallIds: readonly string[];
  /** Recorded calls whose answer the client did not take to its end; absent when there is none. */
  readonly undeliveredCallIds?: readonly string[];
  readonly failed: number;
  readonly aborted: number;
  /** Calls that were answered although their record was lost, and unknown POSTs under the training prefix. */
  readonly captureLost: number;
  readonly workerIndex: number;
  readonly workerGeneration: number;
}

/** A finished rollout on its way to the consumer. Journaled before freeze. */
export interface FinishedRollout {
  readonly slot: RolloutSlot;
  readonly attempt: number;
  readonly rolloutId: string;
  /** Token capture was selected for this rollout's agent. */
  readonly captured: boolean;
  readonly task: Task;
  readonly model: string;
  readonly outcome: HarnessOutcome;
}

/** One line of rollouts.jsonl (the task's own fields are spread into it). */
export interface RolloutRow {
  readonly _ng_task_index: number;
  readonly _ng_rollout_index: number;
  readonly _ng_rollout_id: string;
  reward: number | null;
  response: {
    object: "response";
    id?: string;
    model: string;
    output: OutputItem[];
    usage?: { input_tokens: number; output_tokens: number };
  };
  mask_sample?: true;
  error?: { code: string; message: string };
  _ng_token_capture?: unknown;
  [field: string]: unknown;
}
