/** How a stateless task and its outcome cross threads. Handles cannot: a task thread has no actor of its own. */
import { decodeNestedError, decodeThrown, encodeNestedError } from "./error-wire.js";
import { SerializationError } from "./errors.js";
import type { Outcome, TaskRequest } from "./protocol.js";
import { type PackedValue, pack, UncloneableError, unpack } from "./wire-value.js";

/** @throws NOT_CLONEABLE when an argument cannot cross a thread. */
export function packTask(
  module: string,
  exportName: string,
  args: readonly unknown[],
): TaskRequest {
  if (!URL.canParse(module))
    throw new TypeError(`task: module is ${JSON.stringify(module)}; give a file URL`);
  try {
    // The queue may hold the task for long; it runs with the arguments it was given.
    const packed = structuredClone(packTaskValue(args));
    return { module, exportName, args: packed };
  } catch (error) {
    if (!(error instanceof UncloneableError) && !(error instanceof DOMException)) throw error;
    const task = { module, exportName };
    throw notCloneable(task, `argument ${error.message}`);
  }
}

/** Returns the task's result or throws its error. */
export function settleTask(task: TaskRequest, outcome: Outcome): unknown {
  switch (outcome.kind) {
    case "value":
      return unpackTaskValue(outcome.value);
    case "error":
      throw decodeThrown(outcome.error);
    case "not-cloneable":
      throw notCloneable(task, outcome.what);
  }
}

export function packTaskValue(value: unknown): PackedValue {
  return pack(value, encodeNestedError(0));
}

export function unpackTaskValue(packed: PackedValue): unknown {
  return unpack(packed, decodeNestedError);
}

/** `module#export`. */
export function taskText(task: Pick<TaskRequest, "module" | "exportName">): string {
  return `${task.module}#${task.exportName}`;
}

function notCloneable(
  task: Pick<TaskRequest, "module" | "exportName">,
  what: string,
): SerializationError {
  return new SerializationError({ id: "task", name: undefined }, taskText(task), what);
}
