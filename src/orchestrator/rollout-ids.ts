/**
 * Which rollouts a run has and what they are called.
 *
 * I1. `_ng_rollout_id` on the task wins; else the id is `<task>-<rollout>`, with `p<pass>.` before it in a trainer's pass.
 *     Attempt n > 0 adds `-a<n>`.
 * I2. An id is refused when it is malformed or when two slots would have it; it is never rewritten or merged.
 */
import {
  isRolloutId,
  ROLLOUT_ID_MAX_LENGTH,
  type RolloutSlot,
  type Task,
} from "../actors/index.js";
import { ConfigError } from "./errors.js";

/** I1. */
export function rolloutIdOf(task: Task, slot: RolloutSlot, attempt: number): string {
  const pass = slot.pass === 0 ? "" : `p${slot.pass}.`;
  const base = task._ng_rollout_id ?? `${pass}${slot.taskIndex}-${slot.rolloutIndex}`;
  return attempt === 0 ? base : `${base}-a${attempt}`;
}

/** A slot as one string, for sets and maps. */
export function slotKey(slot: RolloutSlot): string {
  return `${slot.pass}.${slot.taskIndex}-${slot.rolloutIndex}`;
}

/** Slots of one pass, the rollouts of a task together. */
export function slotsOf(tasks: readonly Task[], groupSize: number, pass = 0): RolloutSlot[] {
  return tasks.flatMap((task) =>
    Array.from({ length: groupSize }, (_, rolloutIndex) => ({
      pass,
      taskIndex: task._ng_task_index,
      rolloutIndex,
    })),
  );
}

/** Room that the longest attempt suffix needs. */
const ATTEMPT_SUFFIX_LENGTH = "-a9999".length;

/**
 * I2.
 * @throws TASK_INVALID naming the task and the field.
 */
export function checkRolloutIds(
  tasks: readonly Task[],
  groupSize: number,
  option = "--tasks",
): void {
  const fieldOf = ({ _ng_task_index: index }: Task) => `${option}: task ${index}: _ng_rollout_id`;
  const owners = new Map<string, number>();
  for (const task of tasks) {
    const given = task._ng_rollout_id;
    if (given !== undefined) checkGivenId(given, fieldOf(task), groupSize);
    for (const slot of slotsOf([task], groupSize)) {
      const id = rolloutIdOf(task, slot, 0);
      const owner = owners.get(id);
      if (owner !== undefined)
        throw invalid(fieldOf(task), `the rollout id "${id}" is also one of task ${owner}`);
      owners.set(id, task._ng_task_index);
    }
  }
}

function checkGivenId(id: string, field: string, groupSize: number): void {
  if (!isRolloutId(id) || id.length > ROLLOUT_ID_MAX_LENGTH - ATTEMPT_SUFFIX_LENGTH)
    throw invalid(
      field,
      `${JSON.stringify(id.slice(0, 60))} is not valid; allowed: letters, digits, dot, dash and underscore, a letter or digit first, at most ${ROLLOUT_ID_MAX_LENGTH - ATTEMPT_SUFFIX_LENGTH} characters`,
    );
  if (groupSize > 1)
    throw invalid(
      field,
      `"${id}" would repeat: rollout.group_size is ${groupSize}; allowed: group_size 1, or tasks without the field`,
    );
}

function invalid(field: string, problem: string): ConfigError {
  return new ConfigError("TASK_INVALID", field, problem);
}
