import { describe, expect, it } from "vitest";
import { defineActor, isActorDefinition } from "../../../src/runtime/define-actor.js";
import {
  createLastMethod,
  readLastMethod,
  writeLastMethod,
} from "../../../src/runtime/last-method.js";
import { LineSplitter, LogTail } from "../../../src/runtime/logger.js";
import {
  resolveCallOptions,
  resolveGroupOptions,
  resolveRuntimeOptions,
  resolveSpawnOptions,
  type SpawnOptions,
} from "../../../src/runtime/options.js";
import { stageBudgetMs } from "../../../src/runtime/shutdown.js";
import { Held, Rig, type RigThread, turns } from "../../support/runtime-rig.js";

describe("defineActor", () => {
  it("refuses what a thread could not find again", () => {
    const create = () => ({});
    expect(() => defineActor({ module: "./x.js", name: "x", create })).toThrow(/import\.meta\.url/);
    expect(() => defineActor({ module: import.meta.url, name: "1 x", create })).toThrow(/"1 x"/);
    expect(isActorDefinition(defineActor({ module: import.meta.url, name: "x", create }))).toBe(
      true,
    );
    expect(isActorDefinition({ module: import.meta.url, name: "x", create })).toBe(false);
    const of = (spec: object) => () =>
      defineActor({ module: import.meta.url, name: "x", create, ...spec });
    expect(of({ groups: { io: 0 } })).toThrow(/groups\.io is 0; allowed is an integer from 1/);
    expect(of({ groups: { io: 1 }, methods: { run: { group: "cpu" } } })).toThrow(
      /methods\.run\.group is "cpu"; allowed: io/,
    );
  });
});

describe("options", () => {
  it("have Ray's defaults", () => {
    expect(resolveSpawnOptions({}, "ns")).toMatchObject({
      maxConcurrency: 1,
      maxPendingCalls: Number.POSITIVE_INFINITY,
      namespace: "ns",
      restart: { maxRestarts: 0 },
      stopStage: 0,
    });
    expect(resolveRuntimeOptions({ taskThreads: 3 })).toEqual({
      taskThreads: 3,
      namespace: "default",
    });
    const group = resolveGroupOptions({ numWorkers: 2, name: "w", maxRestarts: -1 });
    expect(group.member(1)).toEqual({ name: "w-1", maxRestarts: -1 });
  });
  it.each([
    [{ maxConcurrency: 1.5 }, /maxConcurrency is 1\.5; allowed is an integer from 1/],
    [{ stopStage: -1 }, /stopStage is -1; allowed is an integer from 0 to 100/],
    [{ name: "" }, /name is ""/],
    [{ maxHeapMiB: 1 }, /maxHeapMiB is 1/],
    [{ namespace: "" }, /namespace is ""/],
    [{ getIfExists: true }, /getIfExists is true; allowed is true, with name/],
    [{ maxPendingCalls: 0 }, /maxPendingCalls is 0; allowed is an integer from 1/],
    [{ onFull: "drop" }, /onFull is "drop"; allowed: "reject", "wait"/],
    [{ maxRestarts: -2 }, /maxRestarts is -2; allowed is an integer from -1/],
    [{ backoffMs: [10, 5] }, /backoffMs\[1\] is 5; allowed is an integer from 10/],
    [{ backoffMs: 5 }, /backoffMs is 5; allowed is \[min, max\]/],
    [{ restartWindowMs: 0 }, /restartWindowMs is 0/],
    [{ maxTaskRetries: -1 }, /maxTaskRetries is -1/],
    [{ hangTimeoutMs: 5 }, /hangTimeoutMs is 5; allowed is an integer from 100/],
  ])("name the bad value: %j", (options, message) => {
    expect(() => resolveSpawnOptions(options as SpawnOptions, "default")).toThrow(message);
  });
  it.each([
    [{ timeoutMs: -1 }, /with: timeoutMs is -1/],
    [{ killAfterMs: Number.NaN }, /with: killAfterMs is NaN/],
    [{ window: 0 }, /with: window is 0; allowed is an integer from 1 to 65536/],
    [{ signal: {} as AbortSignal }, /with: signal is .*; give an AbortSignal/],
    [{ retries: 1 } as object, /with: unknown option retries; known are signal,/],
  ])("name the bad value of a call: %j", (options, message) => {
    expect(() => resolveCallOptions(options)).toThrow(message);
  });
});

describe("last method", () => {
  it("A3 is read back, cut at 255 bytes", () => {
    const memory = createLastMethod();
    expect(readLastMethod(memory)).toBeUndefined();
    writeLastMethod(memory, "aLongerName");
    writeLastMethod(memory, "größe");
    expect(readLastMethod(memory)).toBe("größe");
    writeLastMethod(memory, "x".repeat(300));
    expect(readLastMethod(memory)).toBe("x".repeat(255));
  });
});

describe("logs", () => {
  it("L3 lines are cut at newlines, and the last 20 are kept", () => {
    const tail = new LogTail();
    const splitter = new LineSplitter((line) => tail.push(line));
    splitter.write("a\nb");
    splitter.write("c\r\n\nd");
    expect(tail.lines()).toEqual(["a", "bc"]);
    splitter.end();
    expect(tail.lines()).toEqual(["a", "bc", "d"]);
    for (let index = 0; index < 30; index++) tail.push(`line ${index}`);
    expect([tail.lines().length, tail.lines()[0]]).toEqual([20, "line 10"]);
    splitter.write("x".repeat(70_000));
    expect(tail.lines().at(-1)).toBe("x".repeat(2000));
  });
});

describe("Dispatcher", () => {
  const connect = (actor: object) => {
    const rig = new Rig({ maxConcurrency: 1 });
    const caller = rig.caller();
    const thread: RigThread = rig.thread(actor);
    thread.connect(caller);
    return { thread, connection: caller.connection };
  };

  it("A1 A3 A4 runs one at a time, notes the method, starts nothing after close", async () => {
    const held = new Held();
    const { thread, connection } = connect({ first: held.run, second: held.run });
    const first = connection.call("first", ["a"]);
    await held.startedCount(1);
    expect(readLastMethod(thread.start.lastMethod)).toBe("first");
    const closed = thread.dispatcher.close();
    void connection.call("second", ["b"]).catch(() => {});
    held.end(0);
    await Promise.all([first, closed]);
    await turns();
    expect(held.started).toEqual(["a"]);
    thread.end();
  });

  it("A2 calls methods and function fields, nothing of Object", async () => {
    const { thread, connection } = connect({ field: () => 1, value: 2 });
    expect(await connection.call("field", [])).toBe(1);
    for (const method of ["value", "toString", "constructor", "__proto__"])
      await expect(connection.call(method, [])).rejects.toMatchObject({ code: "METHOD_NOT_FOUND" });
    thread.end();
  });
});

describe("R9 stageBudgetMs", () => {
  it("R9 leaves a tenth of the deadline to each later stage, and an even share at least", () => {
    expect(stageBudgetMs(1000, 0, 2)).toBe(800);
    expect(stageBudgetMs(1000, 800, 1)).toBe(100);
    expect(stageBudgetMs(1000, 900, 0)).toBe(100);
    expect(stageBudgetMs(1000, 0, 19)).toBe(50);
    expect(stageBudgetMs(1000, 2000, 1)).toBe(0);
  });
});
