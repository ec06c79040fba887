/** One line of rollouts.jsonl: the task's own fields plus what the rollout added. Pure. */
import { z } from "zod";
import type { OutputItem } from "../../capture/index.js";
import type { FinishedRollout, RolloutRow, RolloutSlot } from "../rollout.js";

/** What only a rollout may say. A task made from an earlier row must not pass on what that one said. */
const ADDED_FIELDS = new Set([
  "_ng_token_capture",
  "_ng_attempt",
  "_ng_pass",
  "_ng_policy",
  "error",
]);

/** The row before capture has its say: the harness's final text as the only output. */
export function textRow(finished: FinishedRollout): RolloutRow {
  const { slot, attempt, rolloutId, model, outcome } = finished;
  const task = Object.entries(finished.task).filter(([field]) => !ADDED_FIELDS.has(field));
  return {
    ...Object.fromEntries(task),
    ...(slot.pass > 0 ? { _ng_pass: slot.pass } : {}),
    _ng_task_index: slot.taskIndex,
    _ng_rollout_index: slot.rolloutIndex,
    _ng_rollout_id: rolloutId,
    ...(attempt > 0 ? { _ng_attempt: attempt } : {}),
    reward: outcome.reward,
    response: { object: "response", model, output: textOutput(outcome.finalText) },
    ...(outcome.failure === null
      ? {}
      : { error: { code: outcome.failure.code, message: outcome.failure.message } }),
  };
}

/** What sampled a row. */
export interface PolicyName {
  readonly kind: string;
  /** Of the weights at start. */
  readonly checkpoint_digest?: string;
}

/**
 * `_ng_policy` of a row: one digest when one version sampled every call, else one for each version that is known.
 * `digests` holds the versions after the start's.
 */
export function policyOf(
  policy: PolicyName | undefined,
  digests: ReadonlyMap<number, string>,
  versions: { readonly min: number; readonly max: number } | undefined,
): Record<string, unknown> | undefined {
  if (policy === undefined) return undefined;
  const { kind, checkpoint_digest: first } = policy;
  if (versions === undefined || versions.max === 0) return { ...policy };
  const known = [...digests].filter(([at]) => at >= versions.min && at <= versions.max);
  if (versions.min === versions.max) {
    const [only] = known;
    return only === undefined ? { kind } : { kind, checkpoint_digest: only[1] };
  }
  const start = versions.min === 0 && first !== undefined ? [[0, first] as const] : [];
  return { kind, checkpoint_digests: Object.fromEntries([...start, ...known]) };
}

function textOutput(text: string | null): OutputItem[] {
  if (text === null) return [];
  return [{ type: "message", role: "assistant", content: [{ type: "output_text", text }] }];
}

const DeliveredRow = z.looseObject({
  _ng_pass: z.number().int().nonnegative().default(0),
  _ng_task_index: z.number().int().nonnegative(),
  _ng_rollout_index: z.number().int().nonnegative(),
  _ng_rollout_id: z.string(),
  mask_sample: z.boolean().optional(),
  _ng_token_capture: z.looseObject({ n_calls: z.number().optional() }).optional(),
});

/** What a row in the file says of its rollout. */
export interface DeliveredRow {
  readonly slot: RolloutSlot;
  readonly rolloutId: string;
  /** Calls of an unmasked capture; null when nothing of it may be dropped. */
  readonly droppableCalls: number | null;
}

/** @throws a ZodError when the value is no row. */
export function readDeliveredRow(value: unknown): DeliveredRow {
  const row = DeliveredRow.parse(value);
  const unmasked = row.mask_sample !== true;
  return {
    slot: {
      pass: row._ng_pass,
      taskIndex: row._ng_task_index,
      rolloutIndex: row._ng_rollout_index,
    },
    rolloutId: row._ng_rollout_id,
    droppableCalls: unmasked ? (row._ng_token_capture?.n_calls ?? null) : null,
  };
}
