import { describe, expect, it } from "vitest";
import { Task } from "../../../src/actors/rollout.js";
import { isConfigError } from "../../../src/orchestrator/errors.js";
import {
  checkRolloutIds,
  rolloutIdOf,
  slotKey,
  slotsOf,
} from "../../../src/orchestrator/rollout-ids.js";

function task(index: number, id?: string) {
  return Task.parse({
    _ng_task_index: index,
    ...(id === undefined ? {} : { _ng_rollout_id: id }),
    responses_create_params: { input: "x" },
  });
}

function refusal(tasks: Task[], groupSize: number): string {
  try {
    checkRolloutIds(tasks, groupSize);
  } catch (error) {
    if (isConfigError(error, "TASK_INVALID")) return error.message;
    throw error;
  }
  throw new Error("accepted");
}

describe("rollout ids", () => {
  it("I1. an id of the task wins, else task and rollout; attempts are marked", () => {
    const slot = { pass: 0, taskIndex: 3, rolloutIndex: 2 };
    expect(rolloutIdOf(task(3), slot, 0)).toBe("3-2");
    expect(rolloutIdOf(task(3), slot, 2)).toBe("3-2-a2");
    expect(rolloutIdOf(task(3, "mine"), slot, 0)).toBe("mine");
    expect(rolloutIdOf(task(3, "mine"), slot, 1)).toBe("mine-a1");
  });

  it("keeps the rollouts of a task together", () => {
    expect(slotsOf([task(1), task(0)], 2).map(slotKey)).toEqual([
      "0.1-0",
      "0.1-1",
      "0.0-0",
      "0.0-1",
    ]);
  });

  it.each([
    ["../x", "is not valid"],
    ["", "is not valid"],
    [".x", "is not valid"],
    ["a b", "is not valid"],
    ["a".repeat(300), "is not valid"],
  ])("I2. refuses %j", (id, message) => {
    expect(refusal([task(4, id)], 1)).toContain(message);
    expect(refusal([task(4, id)], 1)).toContain("task 4: _ng_rollout_id");
  });

  it("I2. refuses an id that two slots would have", () => {
    expect(refusal([task(0, "x")], 2)).toContain('"x" would repeat');
    expect(refusal([task(0, "x"), task(1, "x")], 1)).toContain('"x" is also one of task 0');
    expect(refusal([task(0), task(1, "0-0")], 1)).toContain('"0-0" is also one of task 0');
    expect(() => checkRolloutIds([task(0), task(1, "x")], 1)).not.toThrow();
  });
});
