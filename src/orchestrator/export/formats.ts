/**
 * One sample as a line for a trainer. The fields, their shapes and where they come from: docs/exports.md.
 *
 * F1. Every id is a captured one, in the captured order; the mask is 1 exactly on sampled tokens.
 */
import { isMapping, type Mapping } from "../config/merge.js";
import type { TrainingSample } from "./training-sample.js";

/** Formats that are JSON lines. */
export type LineFormat = "gym" | "verl" | "trl" | "slime";

export const LINE_FORMATS: Readonly<Record<LineFormat, (sample: TrainingSample) => unknown>> = {
  gym: ({ row }) => row,
  verl: (sample) => ({
    uid: groupId(sample),
    prompt_ids: Array.from(sample.promptIds),
    response_ids: Array.from(sample.responseIds),
    response_mask: Array.from(sample.responseMask),
    rollout_log_probs: Array.from(sample.logProbs),
    reward_score: sample.reward,
    num_turns: sample.turns,
    extra_fields: identity(sample),
  }),
  trl: (sample) => ({
    prompt_ids: Array.from(sample.promptIds),
    completion_ids: Array.from(sample.responseIds),
    logprobs: Array.from(sample.logProbs),
    env_mask: Array.from(sample.responseMask),
    reward: sample.reward,
    group: groupId(sample),
    ...identity(sample),
  }),
  slime: (sample) => ({
    group_index: sample.taskIndex,
    index: sample.rolloutIndex,
    prompt: promptOf(sample.row),
    tokens: [...sample.promptIds, ...sample.responseIds],
    response_length: sample.responseIds.length,
    loss_mask: Array.from(sample.responseMask),
    rollout_log_probs: Array.from(sample.logProbs),
    reward: sample.reward,
    status: sample.row["error"] === undefined ? "completed" : "truncated",
    weight_versions:
      sample.policyVersion === null
        ? []
        : [String(sample.policyVersion.min), String(sample.policyVersion.max)],
    metadata: identity(sample),
  }),
};

/** Rollouts of one task in one pass belong together. */
function groupId({ pass, taskIndex }: TrainingSample): string {
  return `${pass}.${taskIndex}`;
}

function identity(sample: TrainingSample) {
  const { rolloutId, chain, pass, taskIndex, rolloutIndex, attempt, policyVersion } = sample;
  return {
    rollout_id: rolloutId,
    chain,
    pass,
    task_index: taskIndex,
    rollout_index: rolloutIndex,
    attempt,
    ...(policyVersion === null
      ? {}
      : { policy_version_min: policyVersion.min, policy_version_max: policyVersion.max }),
  };
}

/** The task's input as it was given. */
function promptOf(row: Mapping): unknown {
  const params = row["responses_create_params"];
  return isMapping(params) ? params["input"] : undefined;
}
