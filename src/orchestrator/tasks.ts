/**
 * Reads tasks and checks everything about them that can be checked before a rollout starts: one bad line stops the run
 * before any work is done.
 */
import { createHash } from "node:crypto";
import fs from "node:fs";
import path from "node:path";
import { checkTaskFiles, Task, taskPrompt } from "../actors/index.js";
import { nearestName } from "./config/known-keys.js";
import { isMapping } from "./config/merge.js";
import type { CorralConfig } from "./config/schema.js";
import { ConfigError } from "./errors.js";
import { checkFunctionExport, type ModuleExport, resolveModuleExport } from "./modules.js";
import { checkRolloutIds } from "./rollout-ids.js";

/** A task that may run. */
export interface CheckedTask {
  readonly task: Task;
  /** Key of `responses_api_agents`. */
  readonly agent: string;
  readonly verifier?: ModuleExport;
}

export interface TaskSet {
  readonly tasks: readonly CheckedTask[];
  /** sha256, hex, of the tasks in order. */
  readonly digest: string;
}

/** Path of a JSONL file, or tasks. */
export type TasksInput = string | readonly unknown[];

/** @throws TASK_INVALID naming the line and the field; FILE_NOT_FOUND; MODULE_INVALID for a verifier. */
export async function loadTasks(
  input: TasksInput,
  config: CorralConfig,
  folder = process.cwd(),
): Promise<TaskSet> {
  const isFile = typeof input === "string";
  const lines = isFile
    ? readLines(input)
    : input.map((value, index) => ({ value, line: `tasks[${index}]` }));
  const root = isFile ? path.dirname(path.resolve(input)) : folder;
  const option = isFile ? "--tasks" : "tasks";
  if (lines.length === 0) throw new ConfigError("TASK_INVALID", option, "holds no task");

  const firstLine = new Map<number, string>();
  const tasks: CheckedTask[] = [];
  for (const { value, line } of lines) {
    const task = parseTask(value, line);
    const index = task._ng_task_index;
    const earlier = firstLine.get(index);
    if (earlier !== undefined)
      throw invalid(
        line,
        "_ng_task_index",
        `${index} is already the index of ${earlier.replace("--tasks: ", "")}`,
      );
    firstLine.set(index, line);
    tasks.push(interpretTask(task, line, config, root));
  }
  checkRolloutIds(
    tasks.map(({ task }) => task),
    config.rollout.group_size,
    option,
  );
  await checkVerifiers(tasks, option);
  const digest = createHash("sha256").update(JSON.stringify(tasks.map(({ task }) => task)));
  return { tasks, digest: digest.digest("hex") };
}

interface Line {
  readonly value: unknown;
  /** As an error names it: `--tasks: line 3`, or `tasks[2]`. */
  readonly line: string;
}

function readLines(file: string): Line[] {
  let text: string;
  try {
    text = fs.readFileSync(file, "utf8");
  } catch (cause) {
    const reason = cause instanceof Error && "code" in cause ? String(cause.code) : String(cause);
    throw new ConfigError("FILE_NOT_FOUND", "--tasks", `cannot read ${file} (${reason})`, {
      cause,
    });
  }
  return text.split("\n").flatMap((content, index) => {
    if (content.trim() === "") return [];
    const line = `--tasks: line ${index + 1}`;
    try {
      return [{ value: JSON.parse(content) as unknown, line }];
    } catch (cause) {
      throw new ConfigError("TASK_INVALID", line, "is not JSON", { cause });
    }
  });
}

function parseTask(value: unknown, line: string): Task {
  // The parser would leave this key out, and the file would be missing in silence.
  if (isMapping(value) && isMapping(value["files"]) && Object.hasOwn(value["files"], "__proto__"))
    throw invalid(line, "files", 'key "__proto__" is not allowed');
  const result = Task.safeParse(value);
  if (result.success) return result.data;
  const [issue] = result.error.issues;
  throw invalid(line, issue?.path.join(".") || "task", issue?.message ?? "is not valid");
}

function interpretTask(
  task: Task,
  line: string,
  config: CorralConfig,
  folder: string,
): CheckedTask {
  try {
    checkTaskFiles(task.files);
    taskPrompt(task);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new ConfigError("TASK_INVALID", line, reason, { cause });
  }
  const agent = agentOf(task, line, config);
  if (task.verifier === undefined) return { task, agent };
  const verifier = resolveModuleExport(task.verifier, folder, `${line}: verifier`);
  return { task, agent, verifier };
}

/** A task without `agent_ref` goes to the only agent. */
function agentOf(task: Task, line: string, config: CorralConfig): string {
  const names = Object.keys(config.responses_api_agents);
  const [only, ...others] = names;
  const wanted = task.agent_ref?.name;
  if (wanted === undefined) {
    if (only !== undefined && others.length === 0) return only;
    throw invalid(line, "agent_ref.name", `is missing; allowed: ${names.join(", ") || "none"}`);
  }
  if (names.includes(wanted)) return wanted;
  const nearest = nearestName(wanted, names);
  const hint = nearest === undefined ? "none is configured" : `the nearest one is "${nearest}"`;
  throw invalid(line, "agent_ref.name", `"${wanted}" is no key of responses_api_agents; ${hint}`);
}

async function checkVerifiers(tasks: readonly CheckedTask[], option: string): Promise<void> {
  const checked = new Set<string>();
  for (const { task, verifier } of tasks) {
    if (verifier === undefined) continue;
    const name = `${verifier.module}#${verifier.exportName}`;
    if (checked.has(name)) continue;
    checked.add(name);
    await checkFunctionExport(verifier, `${option}: task ${task._ng_task_index}: verifier`);
  }
}

function invalid(line: string, field: string, problem: string): ConfigError {
  return new ConfigError("TASK_INVALID", `${line}: ${field}`, problem);
}
