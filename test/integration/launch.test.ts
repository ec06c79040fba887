/** A training loop over real threads, a real store and real HTTP, with a function harness. */
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { isTrainable, launch, loadConfig, type Run, type RunEvent } from "corral";
import { TokenCaptureStore } from "corral/capture";
import { snapshotOf } from "corral/embedded-policy";
import { afterEach, beforeEach, describe, expect, it } from "vitest";

const fixtures = fileURLToPath(new URL("../fixtures/orchestrator", import.meta.url));
let folder: string;
beforeEach(() => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), "corral-launch-"));
});
afterEach(() => fs.rmSync(folder, { recursive: true }));

const quiet = { debug() {}, info() {}, warn() {}, error() {} };

function config({ harness = "loop", rollout = {}, metrics = {} } = {}) {
  return loadConfig({
    token_id_capture: { enabled: true, dir: path.join(folder, "captures") },
    responses_api_models: {
      policy: {
        engine: { kind: "embedded", seed: 0 },
        sampling_overrides: { temperature: 1, top_p: 1, top_k: 0, max_tokens: 64 },
      },
    },
    responses_api_agents: {
      loop: {
        kind: "function",
        module: `${path.join(fixtures, "harness.mjs")}#${harness}`,
        model: "policy",
        token_id_capture: true,
        concurrency: 3,
        timeout_s: 60,
      },
    },
    rollout: { seed: 0, group_size: 2, ...rollout },
    metrics,
  });
}

function tasks(count: number, files?: object) {
  return Array.from({ length: count }, (_, index) => ({
    _ng_task_index: index,
    responses_create_params: { input: `Write the word heron into the file plan${index}.txt.` },
    verifier: `${path.join(fixtures, "verifiers.mjs")}#always`,
    ...(files === undefined ? {} : { files }),
  }));
}

const start = (settings = {}, onEvent: (event: RunEvent) => void = () => undefined) =>
  launch(config(settings), { logger: quiet, onEvent });

/** Weights that differ from the untrained ones. */
const weights = (version: number) =>
  snapshotOf(new Float64Array(2 ** 18).fill(version / 1000), version);

const idsOf = (rows: readonly { _ng_rollout_id: string }[]) =>
  rows.map((row) => row._ng_rollout_id).sort();

/** What the run's store holds of a rollout. */
async function stored({ dir }: Pick<Run, "dir">, rolloutId: string) {
  const store = new TokenCaptureStore({ dir });
  const snapshot = await store.peek(rolloutId);
  await store.close();
  return snapshot;
}

function journal(run: Pick<Run, "dir">) {
  const text = fs.readFileSync(path.join(run.dir, "journal.jsonl"), "utf8");
  return text
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
}

describe("launch", () => {
  it("gives trainable groups, takes new weights between steps, and says what it did", async () => {
    const rows: Awaited<ReturnType<typeof step>>[] = [];
    const step = async (run: Run) => {
      const taken = [];
      for await (const group of run.rolloutGroups(tasks(2))) {
        expect(group.rollouts.map(({ slot }) => slot.rolloutIndex)).toEqual([0, 1]);
        expect(group.trainable.every(isTrainable)).toBe(true);
        taken.push(...group.trainable);
        await group.accept();
        await group.accept();
        await expect(group.reject("no")).rejects.toThrow("was accepted already");
      }
      return taken;
    };
    await using run = await start({ metrics: { port: 0 } });
    for (const version of [1, 2]) {
      rows.push(await step(run));
      run.report({ generation_kl_error: 0 });
      await run.updatePolicy(version, () => weights(version));
    }
    rows.push(await step(run));
    expect(rows.map(idsOf)).toEqual(
      [1, 2, 3].map((pass) => ["0-0", "0-1", "1-0", "1-1"].map((id) => `p${pass}.${id}`)),
    );
    for (const [version, of] of rows.entries())
      for (const row of of) {
        expect(row._ng_token_capture).toMatchObject({
          policy_version: { min: version, max: version },
        });
        if (version > 0)
          expect(row["_ng_policy"]).toEqual({
            kind: "embedded",
            checkpoint_digest: weights(version).digest,
          });
      }
    expect(run.stats()).toMatchObject({
      rollouts: 12,
      trainable: 12,
      masked: 0,
      n_calls: 3,
      chains: 1,
      delivered_fraction: 1,
      policy_version: 2,
      steps: 2,
      running: 0,
    });
    expect(journal(run).filter(({ state }) => state === "handed_off")).toHaveLength(12);

    const text = await (await fetch(`${run.metricsUrl}/metrics`)).text();
    expect(text).toContain("corral_rollouts_total 12\n");
    expect(text).toContain("corral_trainer_generation_kl_error 0\n");
    const lines = fs.readFileSync(path.join(run.dir, "metrics.jsonl"), "utf8").trim().split("\n");
    const [first] = lines.map((line) => JSON.parse(line));
    expect(Object.keys(first).slice(0, 5)).toEqual([
      "n_calls",
      "chains",
      "delivered_fraction",
      "masked",
      "generation_kl_error",
    ]);
    await expect(run.updatePolicy(2, () => undefined)).rejects.toThrow("is not above");
    const failing = () => Promise.reject(new Error("no room"));
    await expect(run.updatePolicy(3, failing)).rejects.toThrow("no room");
    expect(run.policyVersion).toBe(2);
    await run.updatePolicy(3, () => undefined);
  });

  it("gives failed and masked rollouts with their reasons, and fills a group with new attempts", async () => {
    await using run = await start({ harness: "flaky", rollout: { max_attempts: 2 } });
    for await (const group of run.rolloutGroups(tasks(1), { groupSize: 3 })) {
      expect(group.rollouts.map(({ attempt }) => attempt)).toEqual([1, 1, 1]);
      expect(group.trainable).toHaveLength(3);
    }
    await using silent = await launch(config({ harness: "broken" }), {
      name: "broken",
      logger: quiet,
    });
    const one = await silent.rollout(tasks(1)[0]);
    expect(one).toMatchObject({ trainable: false, reward: 1, slot: { pass: 1 } });
    expect(one.reasons).toContain("HARNESS_ERROR");
    await one.reject("nothing to learn");
    expect(journal(silent).at(-1)).toMatchObject({
      state: "rejected",
      reason: "nothing to learn",
    });
    expect(silent.stats()).toMatchObject({ rollouts: 1, failed: 1, masked: 1, trainable: 0 });
    expect(silent.stats()).not.toHaveProperty("reward_mean");
  });

  it("leaving the loop cancels its harnesses, and what was left is rejected when the loop goes on", async () => {
    const list = tasks(6, { "pause.txt": "20000" });
    const started: string[] = [];
    let wake: (() => void) | undefined;
    await using run = await start({}, (event) => {
      if (event.kind !== "rollout_start") return;
      started.push(event.rolloutId);
      if (started.length === 3) wake?.();
    });
    const three = new Promise<void>((resolve) => (wake = resolve));
    const abort = new AbortController();
    const walk = (async () => {
      for await (const _ of run.rolloutGroups(list, { signal: abort.signal }));
    })();
    await three;
    expect(run.baseUrl(started[0]!, "messages")).toMatch(
      /^http:\/\/127\.0\.0\.1:\d+\/ng-rollout\/p1\.\d-\d\/training-token-capture$/,
    );
    expect(run.baseUrl(started[0]!, "responses")).toMatch(/\/training-token-capture\/v1$/);
    abort.abort(new Error("enough"));
    await expect(walk).rejects.toThrow("enough");
    expect(run.stats()).toMatchObject({ running: 0, cancelled: 3 });
    expect(() => run.baseUrl(started[0]!, "messages")).toThrow("does not run");

    const [first] = tasks(1);
    for await (const group of run.rolloutGroups([first], { groupSize: 1 })) await group.accept();
    expect(journal(run).find(({ state }) => state === "pass_left")).toMatchObject({ pass: 1 });
  });

  it("O4. cancels also what was about to start", async () => {
    const abort = new AbortController();
    await using run = await start({ harness: "stuck" }, ({ kind }) => {
      if (kind === "rollout_start") abort.abort(new Error("enough"));
    });
    const walk = async () => {
      for await (const _ of run.rolloutGroups(tasks(1), { signal: abort.signal, groupSize: 1 }));
    };
    await expect(walk()).rejects.toThrow("enough");
    expect(run.stats()).toMatchObject({ running: 0, cancelled: 1 });
  }, 30_000);

  it("O3. leaves nothing that looks complete when the harness's thread dies", async () => {
    await using run = await start({ harness: "dying" });
    const walk = async () => {
      for await (const _ of run.rolloutGroups(tasks(1), { groupSize: 1 }));
    };
    await expect(walk()).rejects.toMatchObject({ code: "ACTOR_DIED" });
    expect(await stored(run, "p1.0-0")).toMatchObject({ incompleteReasons: ["ABANDONED"] });
  });

  it("O3. leaves nothing of a cancelled rollout that looks complete", async () => {
    await using run = await start({ harness: "endless" });
    for await (const group of run.rolloutGroups(tasks(2), { groupSize: 1 })) {
      expect(idsOf(group.trainable)).toEqual(["p1.1-0"]);
      await group.accept();
      break;
    }
    expect(run.stats()).toMatchObject({ running: 0, cancelled: 1 });
    const snapshot = await stored(run, "p1.0-0");
    expect(snapshot?.entries).toHaveLength(1);
    expect(snapshot).toMatchObject({ incomplete: true, incompleteReasons: ["ABANDONED"] });
  });

  it("a rollout that is too old for its policy is not trainable, and says so", async () => {
    await using run = await start();
    for await (const group of run.rolloutGroups(tasks(2), { maxPolicyLag: 0, groupSize: 1 })) {
      const old = run.policyVersion > 0;
      expect(group.trainable).toHaveLength(old ? 0 : 1);
      expect(group.rollouts[0]?.reasons).toEqual(old ? ["STALE_POLICY"] : []);
      if (!old) {
        while (run.stats().running > 0) await new Promise((resolve) => setImmediate(resolve));
        await run.updatePolicy(1, () => weights(1));
      }
      await group.accept();
    }
    expect(run.stats()).toMatchObject({ stale: 1, trainable: 1 });
  });

  it("H1. says once what makes a run worthless, and stops at max_mask_fraction with the reason", async () => {
    const warned: string[] = [];
    const logger = { ...quiet, warn: (_: object, message: string) => void warned.push(message) };
    const bad = config({ harness: "silent", rollout: { group_size: 4 } });
    const { token_id_capture } = bad;
    const limit = { max_mask_fraction: 0.5, mask_fraction_min_samples: 12 };
    const strict = { ...bad, token_id_capture: { ...token_id_capture, ...limit } };
    await using run = await launch(strict, { logger });
    const walk = async () => {
      for await (const group of run.rolloutGroups(tasks(8))) {
        expect(group.trainable).toEqual([]);
        await group.accept();
      }
    };
    const stopped = {
      code: "RUN_STOPPED",
      reason: "mask_fraction",
      message: expect.stringMatching(/masked; token_id_capture.max_mask_fraction is 0.5$/),
    };
    await expect(walk()).rejects.toMatchObject(stopped);
    await expect(walk()).rejects.toMatchObject(stopped);
    expect(warned.filter((message) => message.includes("nothing to train on"))).toHaveLength(1);
  });

  it("stops at rollout.deadline_s with the reason", async () => {
    await using run = await start({ harness: "stuck", rollout: { deadline_s: 1 } });
    await expect(run.rollout(tasks(1)[0])).rejects.toMatchObject({
      code: "RUN_STOPPED",
      reason: "deadline",
    });
  });

  it("refuses a second process's run, a bad name and a bad group size", async () => {
    await using run = await start();
    await expect(start()).rejects.toMatchObject({ code: "RUN_LOCKED" });
    await expect(launch(config(), { name: "../x" })).rejects.toMatchObject({
      code: "INVALID_VALUE",
    });
    await expect(run.rolloutGroups(tasks(1), { groupSize: 0 }).next()).rejects.toThrow("groupSize");
  });
});
