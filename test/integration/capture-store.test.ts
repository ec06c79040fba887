/** The capture-store actor in its own thread, written to by sinks that live in others. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { captureStore } from "corral/actors";
import { BatchedWriter, isCaptureError, StoreSink, type TokenEntry } from "corral/capture";
import { createRuntime, type Runtime } from "corral/runtime";
import { afterAll, beforeAll, expect, test } from "vitest";
import { mortalStore } from "../fixtures/actors/mortal-store.actor.mjs";
import { recorder } from "../fixtures/actors/recorder.actor.mjs";

let dir: string;
let runtime: Runtime;
beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), "corral-actor-"));
  runtime = await createRuntime();
});
afterAll(async () => {
  await runtime.shutdown({ deadlineMs: 5000 });
  rmSync(dir, { recursive: true, force: true });
});

test("sinks in two worker threads write to one store, and lineage sees what either wrote", async () => {
  const store = await runtime.spawn(captureStore, { dir: join(dir, "a") });
  const workers = await Promise.all([0, 1].map(() => runtime.spawn(recorder, { store })));
  await store.call.open("r");
  await Promise.all(workers.map((worker, i) => worker.call.record("r", `w${i}`, 20)));

  const [node] = await store.call.candidates("r", { kind: "text", text: "answer of w1-7" });
  expect(node?.modelCallId).toBe("w1-7");
  const ids = await store.call.cumulativeIds("r", "w1-7");
  expect(ids).toBeInstanceOf(Int32Array);

  const snapshot = await store.call.freeze("r");
  expect(snapshot).toMatchObject({ incomplete: false, failedCalls: 0 });
  expect(snapshot.entries).toHaveLength(40);
  const entry = snapshot.entries.find(
    ({ model_call_id }) => model_call_id === "w1-7",
  ) as TokenEntry;
  expect([...entry.prompt_token_ids, ...entry.generation_token_ids]).toEqual([...ids]);
  expect(entry.generation_log_probs).toEqual(Float64Array.of(-0.25));
  expect(await store.call.drop("r", snapshot)).toBe(true);
});

test("a refusal keeps its code over two threads", async () => {
  const store = await runtime.spawn(captureStore, { dir: join(dir, "b") });
  const worker = await runtime.spawn(recorder, { store });
  await store.call.freeze("r");
  const error: unknown = await worker.call.record("r", "w", 1).catch((reason: unknown) => reason);
  expect(isCaptureError(error, "ROLLOUT_FROZEN")).toBe(true);
});

test("what a killed store acknowledged is there for the next one", async () => {
  const options = { dir: join(dir, "c") };
  const first = await runtime.spawn(captureStore, options);
  await first.call.open("r");
  const sink = new StoreSink(new BatchedWriter(first.call));
  await sink.beginCall("r", "c1");
  const worker = await runtime.spawn(recorder, { store: first });
  await worker.call.record("r", "w", 5);
  await first.kill();

  const second = await runtime.spawn(captureStore, options);
  expect(await second.call.abandonOpen()).toEqual(["r"]);
  const snapshot = await second.call.freeze("r");
  expect(snapshot.entries).toHaveLength(5);
  expect(snapshot.incompleteReasons).toEqual(["ABANDONED", "DANGLING_INTENT"]);
});

test("K2 a writer that dies under 32 calls in flight loses none of them: another one gets them again", async () => {
  const options = {
    maxConcurrency: 256,
    maxRestarts: 20,
    maxTaskRetries: 20,
    backoffMs: [1, 5] as [number, number],
  };
  const store = await runtime.spawn(mortalStore, { dir: join(dir, "d") }, options);
  const rollouts = Array.from({ length: 32 }, (_, n) => `r${n}`);
  await Promise.all(rollouts.map((id) => store.call.open(id)));
  const workers = await Promise.all(
    [0, 1, 2, 3].map(() => runtime.spawn(recorder, { store }, { maxConcurrency: 8 })),
  );
  const writing = rollouts.map((id, n) => workers[n % 4]!.call.record(id, "c", 12));
  for (let death = 0; death < 5; death += 1) {
    // Its answer may be lost with it.
    await store.call.dieSoon().catch(() => undefined);
    await store.call.candidates("r0", { kind: "text", text: "" }).catch(() => undefined);
  }
  await Promise.all(writing);
  for (const id of rollouts) {
    const snapshot = await store.call.freeze(id);
    expect(snapshot).toMatchObject({ incomplete: false, incompleteReasons: [] });
    expect(snapshot.entries).toHaveLength(12);
  }
});
