/** Runs in Piscina's threads: one stateless task. What it throws travels as data, with its cause and code. */
import { encodeThrown } from "./error-wire.js";
import { loadModule } from "./load-module.js";
import type { Outcome, TaskRequest } from "./protocol.js";
import { packTaskValue, unpackTaskValue } from "./task-wire.js";
import { UncloneableError } from "./wire-value.js";

export async function runTask(task: TaskRequest): Promise<Outcome> {
  try {
    const module = await loadModule(task.module);
    const run = module[task.exportName];
    if (typeof run !== "function")
      throw new TypeError(`${task.module} exports no function "${task.exportName}"`);
    const result: unknown = await run(...(unpackTaskValue(task.args) as unknown[]));
    return { kind: "value", value: packTaskValue(result) };
  } catch (error) {
    if (error instanceof UncloneableError)
      return { kind: "not-cloneable", what: `result ${error.message}` };
    return { kind: "error", error: encodeThrown(error) };
  }
}
