/** A model-server thread dies under a training loop, with every part in its own thread. */
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { loadConfig } from "corral";
import { snapshotOf } from "corral/embedded-policy";
import { afterEach, beforeEach, expect, test } from "vitest";
import { captureDecisions } from "../../dist/orchestrator/config/decisions.js";
import { RunCore } from "../../dist/orchestrator/run-core.js";
import { loadTasks } from "../../dist/orchestrator/tasks.js";

const fixtures = fileURLToPath(new URL("../fixtures/orchestrator", import.meta.url));
let folder: string;
beforeEach(() => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), "corral-restart-"));
});
afterEach(() => fs.rmSync(folder, { recursive: true }));

const ignore = () => undefined;

async function startCore() {
  const config = loadConfig({
    token_id_capture: { enabled: true, all_agents: true, dir: folder },
    responses_api_models: {
      policy: {
        engine: { kind: "embedded", seed: 0 },
        num_workers: 2,
        sampling_overrides: { temperature: 1, top_p: 1, top_k: 0, max_tokens: 64 },
      },
    },
    responses_api_agents: {
      loop: {
        kind: "function",
        module: `${path.join(fixtures, "harness.mjs")}#loop`,
        model: "policy",
        concurrency: 4,
        timeout_s: 60,
      },
    },
    rollout: { seed: 0, group_size: 4 },
  });
  const core = await RunCore.start({
    config,
    decisions: captureDecisions(config, false),
    dir: folder,
    journalPath: path.join(folder, "journal.jsonl"),
    logger: { debug: ignore, info: ignore, warn: ignore, error: ignore },
    onEvent: ignore,
  });
  /** Rows of one group of four. With `pause.txt` each waits that many ms after its first call. */
  const rows = async (files: Record<string, string> = {}) => {
    const task = {
      _ng_task_index: 0,
      responses_create_params: { input: "Write the word heron into the file plan.txt." },
      verifier: `${path.join(fixtures, "verifiers.mjs")}#always`,
      files,
    };
    const { tasks } = await loadTasks([task], config, folder);
    const { stream } = await core.passGroups({ tasks, groupSize: 4, apart: true });
    const delivered = [];
    for await (const { reports } of stream) delivered.push(...reports);
    core.end(stream, undefined);
    return delivered.map(({ row }) => row);
  };
  const workers = core.actors.servers.get("policy") ?? [];
  return { core, rows, workers };
}

/** As after a crash. What `kill` returns comes at the last death. */
function die(ref: { kill(options: { restart: boolean }): Promise<unknown> } | undefined): void {
  void ref?.kill({ restart: true });
}

const weights = (version: number) =>
  snapshotOf(new Float64Array(2 ** 18).fill(version / 1000), version);

test("U2 the run goes on with another thread, on the old port and with the current weights", async () => {
  const { core, rows, workers } = await startCore();
  await using _closes = core;
  await core.policies.update(1, () => weights(1), undefined);
  await core.policies.update(2, () => weights(2), undefined);
  for (const { ref } of workers) die(ref);
  for (const row of await rows()) {
    expect(row?.mask_sample).not.toBe(true);
    expect(row?._ng_token_capture).toMatchObject({
      n_calls: 3,
      chains: 1,
      policy_version: { min: 2, max: 2 },
    });
    expect(row?.["_ng_policy"]).toEqual({
      kind: "embedded",
      checkpoint_digest: weights(2).digest,
    });
  }
  for (const { ref, url } of workers) expect(await ref.call.address()).toEqual({ url });
});

test("U1 a worker that dies between acknowledging and committing has the new weights when the update is done", async () => {
  const { core, workers } = await startCore();
  await using _closes = core;
  const push = () => {
    die(workers[1]?.ref);
    return weights(1);
  };
  await core.policies.update(1, push, undefined);
  for (const { ref } of workers) expect((await ref.call.status()).policyVersion).toBe(1);
});

test("U2 a rollout that opens on a restarted worker during a push is called when the new weights are there", async () => {
  const { core, workers } = await startCore();
  await using _closes = core;
  const [worker] = workers;
  if (worker === undefined) throw new Error("no worker");
  const order: string[] = [];
  let called: Promise<unknown> | undefined;
  const push = async () => {
    die(worker.ref);
    await expect.poll(() => worker.ref.state, { interval: 5 }).toBe("RESTARTING");
    const opened = await worker.ref.call.openRollout({ rolloutId: "x", epoch: 0, captured: false });
    expect(opened).toEqual({ policyVersion: 0, nextPolicyVersion: null });
    called = core.policies.bringUp("policy", worker, opened).then(() => order.push("called"));
    await worker.ref.call.status();
    order.push("pushed");
    return weights(1);
  };
  await core.policies.update(1, push, undefined);
  await called;
  expect(order).toEqual(["pushed", "called"]);
  expect((await worker.ref.call.status()).policyVersion).toBe(1);
});

test("what the dead thread served is masked, also when its answers were recorded; the rest is whole", async () => {
  const { core, rows, workers } = await startCore();
  await using _closes = core;
  const gate = path.join(folder, "gate");
  const running = rows({ "gate.txt": gate });
  const calls = async () => {
    const all = await Promise.all(workers.map(({ ref }) => ref.call.status()));
    return all.reduce((sum, status) => sum + status.calls, 0);
  };
  await expect.poll(calls, { timeout: 20_000, interval: 20 }).toBe(4);
  die(workers[0]?.ref);
  fs.writeFileSync(gate, "");
  const masked = (await running).map((row) => row?.mask_sample === true);
  expect(masked.filter(Boolean)).toHaveLength(2);
  expect((await rows()).some((row) => row?.mask_sample === true)).toBe(false);
});
