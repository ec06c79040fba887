/** What a caller of `spawn` learns when the actor does not start, and what names guarantee. */
import { type ActorStartError, createRuntime, defineActor, type Runtime } from "corral/runtime";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { z } from "zod";
import * as bad from "../fixtures/actors/starts-badly.actor.mjs";
import { victim } from "../fixtures/actors/victim.actor.mjs";
import { silentLogger } from "../support/runtime-support.js";

let runtime: Runtime;
beforeEach(async () => {
  runtime = await createRuntime({ logger: silentLogger });
});
afterEach(async () => {
  await runtime.shutdown({ deadlineMs: 2000 });
});

const startErrorOf = async (spawned: Promise<unknown>): Promise<ActorStartError> =>
  await spawned.then(
    () => expect.fail("started"),
    (error: unknown) => error as ActorStartError,
  );

describe("R1 R2 spawn rejects with ACTOR_START_FAILED and the remote cause", () => {
  it("R1 R2 when create throws", async () => {
    const error = await startErrorOf(runtime.spawn(bad.createThrows, undefined, { name: "disk" }));
    expect(error).toMatchObject({ name: "ActorStartError", code: "ACTOR_START_FAILED" });
    expect(error.message).toContain('actor "disk"');
    expect(error.message).toContain("no disk");
    expect(error.report).toMatchObject({ cause: "start-failed" });
    expect(error.cause).toMatchObject({ name: "CreateError", code: "NO_DISK", path: "/nowhere" });
    expect((error.cause as Error).cause).toBeInstanceOf(TypeError);
    expect((error.cause as Error).stack).toContain("starts-badly.actor.mjs");
  });

  it.each([
    ["the module is missing", bad.moduleMissing, /Cannot find module .*not-there\.mjs/],
    ["the module does not export it", bad.definitionMissing, /exports no actor definition named/],
    ["create returns nothing", bad.createReturnsNothing, /returned undefined; return an object/],
  ])("R1 R2 when %s", async (_case, definition, message) => {
    const error = await startErrorOf(runtime.spawn(definition, undefined));
    expect(error.code).toBe("ACTOR_START_FAILED");
    expect((error.cause as Error).message).toMatch(message);
  });

  it("R1 when the thread exits during create", async () => {
    const error = await startErrorOf(runtime.spawn(bad.createExits, undefined));
    expect(error).toMatchObject({ code: "ACTOR_START_FAILED", report: { exitCode: 7 } });
  });

  it("R1 when create does not end in time", async () => {
    const spawned = runtime.spawn(bad.createNeverEnds, undefined, { startTimeoutMs: 50 });
    const error = await startErrorOf(spawned);
    expect(error.report?.cause).toBe("start-failed");
    expect(error.message).toContain("startTimeoutMs 50");
  });

  it("R1 when the runtime shuts down meanwhile", async () => {
    const spawned = startErrorOf(runtime.spawn(bad.createNeverEnds, undefined));
    await runtime.shutdown({ deadlineMs: 1000 });
    expect((await spawned).report?.cause).toBe("killed");
  });

  it("R2 when the options are refused, with zod's issues, and starts no thread", async () => {
    const strict = defineActor({
      module: import.meta.url,
      name: "strict",
      options: z.object({ port: z.number() }),
      create: () => ({}),
    });
    const error = await startErrorOf(runtime.spawn(strict, { port: "x" } as never));
    expect(error.code).toBe("ACTOR_START_FAILED");
    expect(error.message).toContain("expected number, received string");
    expect(error.cause).toBeInstanceOf(z.ZodError);
    expect(runtime.list()).toEqual([]);
  });

  it("refuses options that cannot be cloned, naming the actor and the option", async () => {
    const options = { nested: { refs: [() => 1] } } as never;
    await expect(runtime.spawn(victim, options, { name: "v" })).rejects.toMatchObject({
      code: "NOT_CLONEABLE",
      message: expect.stringMatching(/actor "v".*option.*function.*nested\.refs\[0\]/),
    });
  });
});

describe("R10 names", () => {
  it("R10 refuses a name that a live actor holds, also while that one starts", async () => {
    const first = runtime.spawn(victim, undefined, { name: "main" });
    await expect(runtime.spawn(victim, undefined, { name: "main" })).rejects.toMatchObject({
      name: "ActorNameError",
      code: "ACTOR_NAME_TAKEN",
      actorName: "main",
    });
    await (await first).kill();
    const second = await runtime.spawn(victim, undefined, { name: "main" });
    expect(await second.call.ping(1)).toBe(1);
    expect(runtime.list().map(({ name, state }) => [name, state])).toEqual([
      ["main", "DEAD"],
      ["main", "ALIVE"],
    ]);
  });

  it("R10 gives a name back when the start fails", async () => {
    await startErrorOf(runtime.spawn(bad.createThrows, undefined, { name: "again" }));
    await expect(runtime.spawn(victim, undefined, { name: "again" })).resolves.toBeDefined();
  });

  it("names the option that is out of range", async () => {
    await expect(runtime.spawn(victim, undefined, { maxConcurrency: 0 })).rejects.toThrow(
      /maxConcurrency is 0; allowed is an integer from 1/,
    );
    await expect(runtime.spawn(victim, undefined, { maxRestart: 1 } as never)).rejects.toThrow(
      /unknown option maxRestart; known are name,/,
    );
  });
});
