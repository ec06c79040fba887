/** Stateless tasks, from main and from within an actor. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type ActorRef, createRuntime, type Runtime } from "corral/runtime";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Worker, worker } from "../fixtures/actors/worker.actor.mjs";
import { silentLogger } from "../support/runtime-support.js";

const module = new URL("../fixtures/tasks/tasks.mjs", import.meta.url).href;
let runtime: Runtime;
let ref: ActorRef<Worker>;
beforeAll(async () => {
  runtime = await createRuntime({ logger: silentLogger, taskThreads: 1 });
  ref = await runtime.spawn(worker, undefined, { maxConcurrency: 4 });
});
afterAll(async () => {
  await runtime.shutdown({ deadlineMs: 2000 });
});

const callers: [string, Runtime["task"]][] = [
  ["main", (...args) => runtime.task(...args)],
  ["an actor", (...args) => ref.call.task(...args) as Promise<never>],
];

describe.each(callers)("tasks from %s", (_caller, task) => {
  it("return results, and R2 errors keep class, code and cause", async () => {
    expect(await task(module, "add", [1, 2])).toBe(3);
    const error = (await task(module, "fail", []).catch((thrown: unknown) => thrown)) as Error;
    expect(error).toBeInstanceOf(RangeError);
    expect(error).toMatchObject({ message: "bad task", code: "BAD" });
    expect(error.cause).toBeInstanceOf(TypeError);
  });

  it("R7 name the task when an argument or the result cannot be cloned", async () => {
    const named = { code: "NOT_CLONEABLE", message: expect.stringContaining("tasks.mjs#") };
    await expect(task(module, "giveFunction", [])).rejects.toMatchObject(named);
  });

  it("T2 a spinning task is ended at timeoutMs, and the next one runs", async () => {
    const spinning = task(module, "spin", [], { timeoutMs: 100 });
    const next = task(module, "add", [3, 4]);
    await expect(spinning).rejects.toMatchObject({ code: "TASK_TIMEOUT", name: "TaskError" });
    expect(await next).toBe(7);
  });

  it("T3 R1 a task whose thread exits rejects, and the next one runs", async () => {
    const dying = task(module, "exit", [3]);
    const next = task(module, "add", [3, 4]);
    await expect(dying).rejects.toMatchObject({ code: "TASK_DIED", cause: expect.any(Error) });
    expect(await next).toBe(7);
  });

  it("name a module or an export that is missing", async () => {
    await expect(task(module, "nope", [])).rejects.toThrow(/exports no function "nope"/);
    await expect(task(`${module}.not`, "add", [])).rejects.toMatchObject({
      code: "ERR_MODULE_NOT_FOUND",
    });
  });
});

it("T1 start in the order they were given", async () => {
  const dir = mkdtempSync(join(tmpdir(), "tasks-"));
  const file = join(dir, "order");
  const numbers = Array.from({ length: 20 }, (_, index) => index);
  await Promise.all(numbers.map((index) => runtime.task(module, "note", [file, index])));
  expect(readFileSync(file, "utf8").trim().split("\n").map(Number)).toEqual(numbers);
  rmSync(dir, { recursive: true });
});

it("S3 the tasks of a dead actor are ended, so others are not kept waiting", async () => {
  const doomed = await runtime.spawn(worker, undefined, { maxConcurrency: 2 });
  const spinning = doomed.call.task(module, "spin", []).catch((error: unknown) => error);
  await doomed.call.echo(1);
  await doomed.kill();
  expect(await spinning).toMatchObject({ code: "ACTOR_DIED" });
  expect(await runtime.task(module, "add", [1, 1])).toBe(2);
});
