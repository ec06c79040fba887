/** Public bug reports of worker threads and the libraries around them, each as a test of what happens here. */
import { execFile } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { getHeapStatistics } from "node:v8";
import Database from "better-sqlite3";
import { type ActorRef, createRuntime, move, type Runtime } from "corral/runtime";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type Faulty, faulty } from "../fixtures/actors/faults.actor.mjs";
import { recordingLogger, silentLogger } from "../support/runtime-support.js";

const tasks = new URL("../fixtures/tasks/tasks.mjs", import.meta.url).href;
const github = (path: string) => `https://github.com/${path}`;
let runtime: Runtime;
let ref: ActorRef<Faulty>;
let dir: string;
beforeAll(async () => {
  runtime = await createRuntime({ logger: silentLogger, taskThreads: 1 });
});
afterAll(async () => {
  await runtime.shutdown({ deadlineMs: 5000 });
});
beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), "faults-"));
  ref = await runtime.spawn(faulty, undefined, { maxConcurrency: 64 });
});
afterEach(async () => {
  await ref.kill();
  rmSync(dir, { recursive: true });
});
const gc = async (): Promise<() => void> => {
  const { setFlagsFromString } = await import("node:v8");
  const { runInNewContext } = await import("node:vm");
  setFlagsFromString("--expose-gc");
  return runInNewContext("gc") as () => void;
};
const errorOf = (call: Promise<unknown>) =>
  call.then(
    () => expect.fail("resolved"),
    (error: unknown) => error as Error & Record<string, unknown>,
  );

describe("Comlink", () => {
  it(`a handle collected while its calls are under way: ${github("GoogleChromeLabs/comlink/issues/692")}`, async () => {
    const collect = await gc();
    const calls = await (async () => {
      const short = await runtime.spawn(faulty, undefined, { maxConcurrency: 50 });
      return Array.from({ length: 50 }, (_, index) => short.call.later(index));
    })();
    collect();
    await new Promise((resolve) => setImmediate(resolve));
    collect();
    expect(await Promise.all(calls)).toEqual(Array.from({ length: 50 }, (_, index) => index));
  });

  it(`a call pending at release or terminate settles: ${github("GoogleChromeLabs/comlink/issues/601")}`, async () => {
    const pending = errorOf(ref.call.wait());
    await ref.kill();
    expect(await pending).toMatchObject({ code: "ACTOR_DIED", report: { cause: "killed" } });
  });

  it(`own fields and cause of an error: ${github("GoogleChromeLabs/comlink/issues/594")}, 514, 385`, async () => {
    const error = await errorOf(ref.call.throwOwn());
    expect(error).toMatchObject({ name: "OwnError", code: "OWN", detail: 7 });
    expect(error["cause"]).toBeInstanceOf(TypeError);
  });

  it(`nothing is kept of a call after terminate: ${github("GoogleChromeLabs/comlink/issues/655")}`, async () => {
    const collect = await gc();
    const collected = await (async () => {
      const short = await runtime.spawn(faulty, undefined);
      const payload = { large: new Array(1000).fill("x") };
      const pending = errorOf(short.call.echo(payload).then(() => short.call.wait()));
      const weak = new WeakRef(payload);
      await short.call.echo(1);
      await short.kill();
      await pending;
      return weak;
    })();
    for (let round = 0; round < 10 && collected.deref() !== undefined; round++) {
      await new Promise((resolve) => setImmediate(resolve));
      collect();
    }
    expect(collected.deref()).toBeUndefined();
  });

  it(`a generator is a stream, with no item too many: ${github("GoogleChromeLabs/comlink/issues/435")}`, async () => {
    const items: number[] = [];
    for await (const item of ref.stream.numbers(3)) items.push(item);
    expect(items).toEqual([0, 1, 2]);
  });
});

describe("Piscina", () => {
  it(`early tasks do not wait behind later ones: ${github("piscinajs/piscina/issues/1031")}`, async () => {
    const file = join(dir, "order");
    const numbers = Array.from({ length: 30 }, (_, index) => index);
    await Promise.all(numbers.map((index) => runtime.task(tasks, "note", [file, index])));
    expect(readFileSync(file, "utf8").trim().split("\n").map(Number)).toEqual(numbers);
  });

  it(`ending one task leaves its neighbours alone: ${github("piscinajs/piscina/issues/934")}`, async () => {
    const spinning = errorOf(runtime.task(tasks, "spin", [], { timeoutMs: 50 }));
    const others = [1, 2, 3].map((n) => runtime.task(tasks, "add", [n, n]));
    expect(await spinning).toMatchObject({ code: "TASK_TIMEOUT" });
    expect(await Promise.all(others)).toEqual([2, 4, 6]);
  });

  it(`own fields of a native error: ${github("piscinajs/piscina/issues/1143")}`, async () => {
    expect(await errorOf(ref.call.throwNative())).toMatchObject({ foo: "bar", list: [1, 2] });
    expect(await errorOf(runtime.task(tasks, "fail", []))).toMatchObject({ code: "BAD" });
  });

  it(`a task's time starts with the task, not in the queue: ${github("piscinajs/piscina/issues/869")}`, async () => {
    const first = errorOf(runtime.task(tasks, "spin", [], { timeoutMs: 6000 }));
    const second = runtime.task(tasks, "add", [1, 2], { timeoutMs: 5500 });
    expect(await first).toMatchObject({ code: "TASK_TIMEOUT" });
    expect(await second).toBe(3);
  });

  it(`two ended tasks do not stop the ones behind them: ${github("piscinajs/piscina/issues/805")}`, async () => {
    const ended = [1, 2].map(() => errorOf(runtime.task(tasks, "spin", [], { timeoutMs: 50 })));
    expect(await Promise.all(ended)).toHaveLength(2);
    expect(await runtime.task(tasks, "add", [2, 2])).toBe(4);
  });
});

describe("Node", () => {
  it(`a full heap of small objects ends its actor alone: ${github("nodejs/node/pull/65019")}, ${github("nodejs/node/issues/47224")}`, async () => {
    const small = await runtime.spawn(faulty, undefined, { maxHeapMiB: 32 });
    expect(await errorOf(small.call.exhaustHeap())).toMatchObject({ report: { cause: "oom" } });
    expect(await ref.call.echo("alive")).toBe("alive");
  });

  it(`what a thread wrote before it was ended is not lost: ${github("nodejs/node/issues/40961")}, 53701`, async () => {
    const { logger, recordsOf } = recordingLogger();
    await using own = await createRuntime({ logger });
    const loud = await own.spawn(faulty, undefined);
    const written = loud.call.writeLines(200);
    await written;
    await loud.kill();
    await recordsOf("line 0", 1);
    expect(await recordsOf("line 199", 1)).toHaveLength(1);
  });

  it("L3 a spinning thread's last lines are in its report after a kill", async () => {
    const { logger, recordsOf } = recordingLogger();
    await using own = await createRuntime({ logger });
    const loud = await own.spawn(faulty, undefined);
    const spinning = errorOf(loud.call.logThenSpin(50));
    await recordsOf("spinning", 1);
    const report = await loud.kill();
    expect(report.lastLogs.slice(-2)).toEqual(["info about to spin", "spinning"]);
    expect(report.lastLogs).toHaveLength(20);
    await spinning;
    expect(await recordsOf("about to spin", 50)).toHaveLength(50);
  });

  it(`a pooled Buffer can be moved without harm to its neighbours: ${github("nodejs/node/issues/55593")}`, async () => {
    const pooled = Buffer.from("hello");
    const neighbour = Buffer.from("other");
    const back = (await ref.call.echo(move(pooled))) as Uint8Array;
    expect([Buffer.from(back).toString(), back.buffer.byteLength]).toEqual(["hello", 5]);
    expect([pooled.toString(), neighbour.toString()]).toEqual(["hello", "other"]);
    const { sent, lengthAfter } = await ref.call.pooled();
    expect([Buffer.from(sent).toString(), lengthAfter]).toEqual(["hello", 5]);
  });

  it("W5 a buffer moved twice is refused, where postMessage would lose the message", async () => {
    const ids = Int32Array.of(1, 2, 3);
    expect(await ref.call.echo(move(ids))).toEqual(Int32Array.of(1, 2, 3));
    expect(ids).toHaveLength(0);
    await expect(ref.call.echo(move(ids))).rejects.toMatchObject({ code: "NOT_CLONEABLE" });
    expect(await ref.call.echo(1)).toBe(1);
  });
});

describe("better-sqlite3", () => {
  it(`terminate during a call: ${github("WiseLibs/better-sqlite3/issues/1507")}`, async () => {
    const { logger, recordsOf } = recordingLogger();
    await using own = await createRuntime({ logger });
    const path = join(dir, "loop.db");
    for (let round = 1; round <= 5; round++) {
      const looping = await own.spawn(faulty, undefined);
      const call = errorOf(looping.call.sqliteLoop(path));
      await recordsOf("in the loop", round);
      expect(await looping.kill()).toMatchObject({ cause: "killed" });
      expect(await call).toMatchObject({ code: "ACTOR_DIED" });
    }
  });

  it(`a thread that dies with an open database leaves no lock: ${github("WiseLibs/better-sqlite3/issues/1476")}`, async () => {
    const path = join(dir, "throw.db");
    const dying = await runtime.spawn(faulty, undefined);
    expect(await errorOf(dying.call.sqliteThrow(path))).toMatchObject({
      report: { cause: "error" },
    });
    const db = new Database(path, { timeout: 0 });
    db.exec("BEGIN IMMEDIATE; CREATE TABLE t (n); COMMIT");
    db.close();
  });
});

describe("others", () => {
  it(`fetches under way do not hold up the end of a thread: ${github("nodejs/undici/issues/2026")}`, async () => {
    let arrived = (): void => {};
    let open = 0;
    const server = createServer(() => {
      open += 1;
      if (open === 8) arrived();
    }).listen(0, "127.0.0.1");
    await once(server, "listening");
    const allArrived = new Promise<void>((resolve) => {
      arrived = resolve;
    });
    const { port } = server.address() as AddressInfo;
    const call = errorOf(ref.call.fetchMany(`http://127.0.0.1:${port}/`, 8));
    await allArrived;
    expect(await ref.kill()).toMatchObject({ cause: "killed", exitCode: 1 });
    expect(await call).toMatchObject({ code: "ACTOR_DIED" });
    server.closeAllConnections();
    server.close();
  });

  it(`process.exit in a worker settles its calls: ${github("andywer/threads.js/issues/386")}, ${github("poolifier/poolifier/pull/3211")}`, async () => {
    const dying = await runtime.spawn(faulty, undefined);
    expect(await errorOf(dying.call.exit(7))).toMatchObject({ report: { exitCode: 7 } });
    await expect(runtime.task(tasks, "exit", [7])).rejects.toMatchObject({ code: "TASK_DIED" });
    expect(await runtime.task(tasks, "add", [1, 1])).toBe(2);
  });

  it(`a worker has the main thread's heap limit: ${github("blinkk/rootjs/pull/1227")}`, async () => {
    const mine = Math.round(getHeapStatistics().heap_size_limit / 2 ** 20);
    expect(await ref.call.heapLimitMiB()).toBeGreaterThanOrEqual(mine - 1);
    const { stdout } = await promisify(execFile)(
      process.execPath,
      [
        "--max-old-space-size=6000",
        "--input-type=module",
        "--eval",
        `import { createRuntime } from "corral/runtime";
         import { faulty } from ${JSON.stringify(new URL("../fixtures/actors/faults.actor.mjs", import.meta.url).href)};
         const runtime = await createRuntime();
         const ref = await runtime.spawn(faulty, undefined);
         console.log(await ref.call.heapLimitMiB());
         await runtime.shutdown();`,
      ],
      { timeout: 30_000 },
    );
    expect(Number(stdout)).toBeGreaterThanOrEqual(6000);
  });

  it(`memory does not grow with restarts while transfers are under way: ${github("koush/scrypted/pull/2035")}`, async () => {
    const before = process.memoryUsage().arrayBuffers;
    for (let round = 0; round < 10; round++) {
      const short = await runtime.spawn(faulty, undefined, { maxConcurrency: 4 });
      const calls = [1, 2, 3, 4].map(() =>
        errorOf(short.call.keep(move(new Uint8Array(4 * 2 ** 20)))),
      );
      await short.kill();
      await Promise.all(calls);
    }
    (await gc())();
    // 160 MiB were sent; none of it may be left beyond one round.
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(20 * 2 ** 20);
  });

  it(`the last log record before a death is kept: ${github("pinojs/pino/issues/1095")}, 2054`, async () => {
    const { logger, recordsOf } = recordingLogger();
    await using own = await createRuntime({ logger });
    const dying = await own.spawn(faulty, undefined);
    const error = await errorOf(dying.call.logThenThrow());
    expect(error).toMatchObject({ report: { lastLogs: ["error last record"] } });
    expect((await recordsOf("last record", 1))[0]?.fields).toMatchObject({ last: true });
  });
});
