import { describe, expect, it } from "vitest";
import { defineActor, isActorDefinition } from "../../../src/runtime/define-actor.js";
import { Dispatcher } from "../../../src/runtime/dispatch.js";
import {
  createLastMethod,
  readLastMethod,
  writeLastMethod,
} from "../../../src/runtime/last-method.js";
import { LineSplitter, LogTail } from "../../../src/runtime/logger.js";
import { resolveSpawnOptions, resolveTaskThreads } from "../../../src/runtime/options.js";
import { stageBudgetMs } from "../../../src/runtime/shutdown.js";

describe("defineActor", () => {
  it("refuses what a thread could not find again", () => {
    const create = () => ({});
    expect(() => defineActor({ module: "./x.js", name: "x", create })).toThrow(/import\.meta\.url/);
    expect(() => defineActor({ module: import.meta.url, name: "1 x", create })).toThrow(/"1 x"/);
    expect(isActorDefinition(defineActor({ module: import.meta.url, name: "x", create }))).toBe(
      true,
    );
    expect(isActorDefinition({ module: import.meta.url, name: "x", create })).toBe(false);
  });
});

describe("options", () => {
  it("have Ray's defaults", () => {
    expect(resolveSpawnOptions({})).toMatchObject({ maxConcurrency: 1, stopStage: 0 });
    expect(resolveTaskThreads({ taskThreads: 3 })).toBe(3);
  });
  it.each([
    [{ maxConcurrency: 1.5 }, /maxConcurrency is 1\.5; allowed is an integer from 1/],
    [{ stopStage: -1 }, /stopStage is -1; allowed is an integer from 0 to 100/],
    [{ name: "" }, /name is ""/],
    [{ maxHeapMiB: 1 }, /maxHeapMiB is 1/],
  ])("name the bad value: %j", (options, message) => {
    expect(() => resolveSpawnOptions(options)).toThrow(message);
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
  const start = {
    corral: "actor",
    actor: { id: "a-1", name: undefined, maxConcurrency: 1 },
    module: "",
    definition: "a",
    options: { value: undefined },
    lastMethod: createLastMethod(),
  } as const;
  const codec = {
    pack: (value: unknown) => ({ value }),
    unpack: (packed: { value: unknown }) => packed.value,
  };
  const call = (method: string) => ({ method, args: { value: [] } });

  it("A1 A3 A4 runs one at a time, notes the method, starts nothing after close", async () => {
    const log: string[] = [];
    let end = (): void => {};
    const actor = {
      first: () => {
        log.push("first");
        return new Promise<void>((resolve) => {
          end = resolve;
        });
      },
      second: () => void log.push("second"),
      third: () => void log.push("third"),
    };
    const dispatcher = new Dispatcher(actor, start, codec);
    const first = dispatcher.invoke(call("first"));
    const second = dispatcher.invoke(call("second"));
    expect([log, readLastMethod(start.lastMethod)]).toEqual([["first"], "first"]);
    const closed = dispatcher.close();
    void dispatcher.invoke(call("third"));
    end();
    await Promise.all([first, second, closed]);
    expect(log).toEqual(["first", "second"]);
  });

  it("A2 calls methods and function fields, nothing of Object", async () => {
    const dispatcher = new Dispatcher({ field: () => 1, value: 2 }, start, codec);
    expect(await dispatcher.invoke(call("field"))).toEqual({ kind: "value", value: { value: 1 } });
    for (const method of ["value", "toString", "constructor", "__proto__"])
      expect(await dispatcher.invoke(call(method))).toMatchObject({
        kind: "error",
        error: { error: { name: "ActorError" } },
      });
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
