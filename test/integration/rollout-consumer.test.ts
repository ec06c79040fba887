import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import {
  type CaptureStore,
  captureStore,
  type FinishedRollout,
  type RolloutSealer,
  rolloutConsumer,
} from "corral/actors";
import { BatchedWriter, isTrainable, StoreSink } from "corral/capture";
import { type ActorDefinition, type ActorRef, createRuntime, type Runtime } from "corral/runtime";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { twoCalls } from "../support/recorded-calls.js";

const { sealingServer }: { sealingServer: ActorDefinition<RolloutSealer, object> } = await import(
  new URL("../fixtures/sealing-server.actor.mjs", import.meta.url).href
);

let runtime: Runtime;
let directory: string;
beforeEach(async () => {
  directory = fs.mkdtempSync(path.join(os.tmpdir(), "corral-test-"));
  runtime = await createRuntime();
});
afterEach(async () => {
  await runtime.shutdown({ deadlineMs: 5000 });
  fs.rmSync(directory, { recursive: true });
});

async function start() {
  const store = await runtime.spawn(
    captureStore,
    { dir: path.join(directory, "store") },
    { maxConcurrency: 16 },
  );
  const servers = await Promise.all([
    runtime.spawn(sealingServer, { workerIndex: 0, calls: ["a", "b"] }),
    runtime.spawn(sealingServer, { workerIndex: 1, calls: [] }),
  ]);
  return { store, servers, consumer: await spawnConsumer(store, servers) };
}

function spawnConsumer(store: ActorRef<CaptureStore>, servers: readonly ActorRef<RolloutSealer>[]) {
  const files = {
    journalPath: path.join(directory, "journal.jsonl"),
    outPath: path.join(directory, "out.jsonl"),
  };
  return runtime.spawn(
    rolloutConsumer,
    { ...files, store, servers, rebuildResponse: true },
    { maxConcurrency: 16 },
  );
}

function finished(rolloutIndex: number): FinishedRollout {
  const rolloutId = `0-${rolloutIndex}`;
  return {
    slot: { pass: 0, taskIndex: 0, rolloutIndex },
    attempt: 0,
    rolloutId,
    captured: true,
    task: { _ng_task_index: 0, responses_create_params: { input: "x" } },
    model: "policy",
    outcome: {
      completed: true,
      finalText: "done",
      finalMessageId: `msg-${rolloutId}-b`,
      reward: 1,
      failure: null,
      exitCode: 0,
      stderrTail: "",
      wallMs: 1,
    },
  };
}

const rows = () =>
  fs
    .readFileSync(path.join(directory, "out.jsonl"), "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));

describe("the consumer actor over a real store", () => {
  test("R1 R4 many deliveries at once become trainable rows, and nothing of them is left in the store", async () => {
    const { store, consumer } = await start();
    const sink = new StoreSink(new BatchedWriter(store.call));
    const rollouts = [0, 1, 2, 3].map(finished);
    for (const { rolloutId, slot } of rollouts) {
      await consumer.call.begin({ slot, attempt: 0, rolloutId });
      await store.call.open(rolloutId);
      for (const entry of twoCalls(rolloutId)) await sink.put(entry);
    }
    const reports = await Promise.all(rollouts.map((rollout) => consumer.call.deliver(rollout)));
    for (const report of reports)
      expect(report).toMatchObject({
        masked: false,
        maskReasons: [],
        calls: 2,
        workerCalls: [2, 0],
      });
    expect(rows().every(isTrainable)).toBe(true);
    for (const { rolloutId } of rollouts)
      await expect(store.call.freeze(rolloutId)).rejects.toMatchObject({ code: "ROLLOUT_RETIRED" });
  });

  test("R3 a server that died masks, and its evidence is there after a restart of the consumer", async () => {
    const { store, servers, consumer } = await start();
    const rollout = finished(0);
    await store.call.open(rollout.rolloutId);
    for (const entry of twoCalls(rollout.rolloutId))
      await new StoreSink(new BatchedWriter(store.call)).put(entry);
    await servers[1]!.kill();
    expect(await consumer.call.deliver(rollout)).toMatchObject({
      masked: true,
      maskReasons: ["WORKER_DIED"],
    });
    await consumer.kill();

    const next = await spawnConsumer(store, servers);
    expect(await next.call.recover()).toMatchObject({ delivered: [rollout.slot], redelivered: [] });
    expect((await store.call.freeze(rollout.rolloutId)).entries).toHaveLength(2);
    expect(await next.call.deliver(rollout)).toMatchObject({ error: { code: "DELIVERY_ERROR" } });
    expect(rows()).toHaveLength(1);
  });
});
