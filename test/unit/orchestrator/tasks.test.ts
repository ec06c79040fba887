import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { afterAll, describe, expect, it } from "vitest";
import { loadConfig } from "../../../src/orchestrator/config/load.js";
import { type ConfigError, isConfigError } from "../../../src/orchestrator/errors.js";
import { loadTasks } from "../../../src/orchestrator/tasks.js";

const folder = fs.mkdtempSync(path.join(os.tmpdir(), "corral-tasks-"));
afterAll(() => fs.rmSync(folder, { recursive: true }));

const fixtures = fileURLToPath(new URL("../../fixtures/orchestrator", import.meta.url));
const agent = { kind: "claude_code", model: "policy" };
const config = (groupSize = 1, agents: object = { coder: agent, other: agent }) =>
  loadConfig({
    responses_api_models: { policy: { engine: { kind: "embedded" } } },
    responses_api_agents: agents,
    rollout: { group_size: groupSize },
  });

const task = (fields: object = {}) => ({
  _ng_task_index: 0,
  agent_ref: { name: "coder" },
  responses_create_params: { input: [{ role: "user", content: "x" }] },
  ...fields,
});

function write(lines: readonly unknown[]): string {
  const file = path.join(folder, "tasks.jsonl");
  const text = lines.map((line) => (typeof line === "string" ? line : JSON.stringify(line)));
  fs.writeFileSync(file, `${text.join("\n")}\n`);
  return file;
}

async function refusal(lines: readonly unknown[], groupSize = 1): Promise<ConfigError> {
  try {
    await loadTasks(write(lines), config(groupSize));
  } catch (error) {
    if (isConfigError(error)) return error;
    throw error;
  }
  throw new Error("the tasks were accepted");
}

describe("loadTasks", () => {
  it("keeps unknown fields, skips empty lines, resolves a verifier against the tasks file", async () => {
    fs.copyFileSync(path.join(fixtures, "verifiers.mjs"), path.join(folder, "verifiers.mjs"));
    const lines = [
      task({ family: "say", verifier: "./verifiers.mjs#always" }),
      "",
      task({ _ng_task_index: 7 }),
    ];
    const { tasks, digest } = await loadTasks(write(lines), config());
    expect(tasks).toHaveLength(2);
    expect(tasks[0]?.task["family"]).toBe("say");
    expect(tasks[0]?.verifier).toEqual({
      module: pathToFileURL(path.join(fs.realpathSync(folder), "verifiers.mjs")).href,
      exportName: "always",
    });
    expect(tasks[1]?.agent).toBe("coder");
    expect(digest).toMatch(/^[0-9a-f]{64}$/);
  });

  it("gives tasks without agent_ref to the only agent", async () => {
    const tasks = [task({ agent_ref: undefined })];
    const loaded = await loadTasks(tasks, config(1, { coder: agent }));
    expect(loaded.tasks[0]?.agent).toBe("coder");
  });

  it.each<[string, unknown[], string]>([
    ["a field", [task(), task({ _ng_task_index: "1" })], "tasks[1]: _ng_task_index:"],
    [
      "an index twice",
      [task(), task()],
      "tasks[1]: _ng_task_index: 0 is already the index of tasks[0]",
    ],
    ["an id", [task({ _ng_rollout_id: "../x" })], "tasks: task 0: _ng_rollout_id:"],
    ["nothing", [], "tasks: holds no task"],
  ])("names the place in given tasks: %s", async (_, tasks, message) => {
    const loading = loadTasks(tasks, config());
    await expect(loading).rejects.toMatchObject({ code: "TASK_INVALID" });
    const error: Error = await loading.catch((reason) => reason);
    expect(error.message.startsWith(message), error.message).toBe(true);
  });

  it("has a digest of the tasks, not of their spelling", async () => {
    const { digest } = await loadTasks([task()], config());
    const spaced = JSON.stringify(task(), null, 1).replaceAll("\n", " ");
    expect((await loadTasks(write([spaced]), config())).digest).toBe(digest);
    expect((await loadTasks([task({ more: 1 })], config())).digest).not.toBe(digest);
  });

  it.each<[string, unknown[], string]>([
    ["a line that is not JSON", [task(), "{"], "--tasks: line 2: is not JSON"],
    ["a missing index", [task({ _ng_task_index: undefined })], "--tasks: line 1: _ng_task_index:"],
    ["a wrong type", [task({ files: { a: 1 } })], "--tasks: line 1: files.a:"],
    [
      "an index twice",
      [task(), "", task()],
      "--tasks: line 3: _ng_task_index: 0 is already the index of line 1",
    ],
    [
      "a path out of the directory",
      [task({ files: { "../x": "" } })],
      '--tasks: line 1: files key "../x"',
    ],
    [
      "an unknown agent",
      [task({ agent_ref: { name: "codr" } })],
      '--tasks: line 1: agent_ref.name: "codr" is no key of responses_api_agents; the nearest one is "coder"',
    ],
    [
      "no agent of two",
      [task({ agent_ref: undefined })],
      "agent_ref.name: is missing; allowed: coder, other",
    ],
    ["an id that is no id", [task({ _ng_rollout_id: "../x" })], "--tasks: task 0: _ng_rollout_id:"],
    [
      "a verifier without export",
      [task({ verifier: "./verifiers.mjs" })],
      "--tasks: line 1: verifier:",
    ],
    [
      "a verifier that is not there",
      [task({ verifier: "./nope.mjs#x" })],
      "cannot find the module ./nope.mjs",
    ],
    [
      "an export that is not there",
      [task({ verifier: "./verifiers.mjs#nope" })],
      'exports no function "nope"; allowed: always',
    ],
    [
      "an export that is no function",
      [task({ verifier: "./verifiers.mjs#notAFunction" })],
      "allowed: always",
    ],
    ["no task", [""], "--tasks: holds no task"],
  ])("refuses %s", async (_name, lines, message) => {
    expect((await refusal(lines)).message).toContain(message);
  });

  it("refuses an id that would repeat in a group, and a file that is not there", async () => {
    expect((await refusal([task({ _ng_rollout_id: "x" })], 2)).message).toContain("would repeat");
    await expect(loadTasks(path.join(folder, "none.jsonl"), config())).rejects.toMatchObject({
      code: "FILE_NOT_FOUND",
    });
  });
});
