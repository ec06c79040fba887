import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import {
  exportRollouts,
  isTrainable,
  loadConfig,
  type RunEvent,
  runRollouts,
  verifyRollouts,
} from "corral";
import { TokenCaptureStore } from "corral/capture";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { runCorral, startCorral } from "../support/corral-cli.js";

const fixtures = fileURLToPath(new URL("../fixtures/orchestrator", import.meta.url));
let folder: string;
let out: string;
beforeEach(() => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), "corral-runs-"));
  out = path.join(folder, "rollouts.jsonl");
});
afterEach(() => fs.rmSync(folder, { recursive: true }));

interface Settings {
  readonly harness?: string;
  readonly capture?: object;
  readonly agent?: object;
  readonly rollout?: object;
  readonly numWorkers?: number;
}

function rawConfig({ harness = "loop", numWorkers = 1, ...settings }: Settings = {}) {
  const { capture, agent, rollout } = settings;
  return {
    token_id_capture: { enabled: true, dir: path.join(folder, "captures"), ...capture },
    responses_api_models: {
      policy: {
        engine: { kind: "embedded", seed: 0 },
        num_workers: numWorkers,
        sampling_overrides: { temperature: 1, top_p: 1, top_k: 0, max_tokens: 64 },
      },
    },
    responses_api_agents: {
      loop: {
        kind: "function",
        module: `${path.join(fixtures, "harness.mjs")}#${harness}`,
        model: "policy",
        token_id_capture: true,
        concurrency: 2,
        timeout_s: 30,
        ...agent,
      },
    },
    rollout: { seed: 0, ...rollout },
  };
}

function tasks(count: number, files?: object) {
  return Array.from({ length: count }, (_, index) => ({
    _ng_task_index: index,
    responses_create_params: { input: `Write the word heron into the file plan${index}.txt.` },
    verifier: `${path.join(fixtures, "verifiers.mjs")}#always`,
    ...(files === undefined ? {} : { files }),
  }));
}

/** Writes config and tasks as a user would and gives the command line. */
function commandLine(settings: Settings, taskList: readonly object[]): string[] {
  const config = path.join(folder, "corral.yaml");
  const tasksFile = path.join(folder, "tasks.jsonl");
  fs.writeFileSync(config, JSON.stringify(rawConfig(settings)));
  fs.writeFileSync(tasksFile, taskList.map((task) => `${JSON.stringify(task)}\n`).join(""));
  return ["run", "--config", config, "--tasks", tasksFile, "--out", out];
}

function readRows(): Record<string, unknown>[] {
  return fs
    .readFileSync(out, "utf8")
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line));
}

const slots = () => readRows().map((row) => `${row["_ng_task_index"]}-${row["_ng_rollout_index"]}`);

/** What the store of the only run holds of a rollout. */
async function stored(rolloutId: string) {
  const [name = ""] = fs.readdirSync(path.join(folder, "captures"));
  const store = new TokenCaptureStore({ dir: path.join(folder, "captures", name) });
  const snapshot = await store.peek(rolloutId);
  await store.close();
  return snapshot;
}

async function run(settings: Settings, taskList: readonly object[]) {
  const events: RunEvent[] = [];
  const summary = await runRollouts({
    config: loadConfig(rawConfig(settings)),
    tasks: taskList,
    out,
    onEvent: (event) => events.push(event),
  });
  return { summary, events };
}

describe("a run", () => {
  it("gives one trainable row for each rollout, served by both workers", async () => {
    const { summary, events } = await run({ numWorkers: 2, rollout: { group_size: 2 } }, tasks(6));
    expect(summary).toMatchObject({
      rollouts: 12,
      remaining: 0,
      completed: 12,
      masked: 0,
      meanReward: { unmasked: 1, masked: null },
      meanCalls: 3,
      deliveredFraction: 1,
      notRebuilt: 0,
      failures: {},
      stopped: null,
      evaluationOnly: false,
    });
    expect(Object.values(summary.callsPerWorker)).toEqual([18, 18]);
    const rows = readRows();
    expect(rows.filter(isTrainable)).toHaveLength(12);
    expect(new Set(rows.map((row) => row["_ng_rollout_id"])).size).toBe(12);
    expect(events.filter(({ kind }) => kind === "rollout_end")).toHaveLength(12);

    const report = await verifyRollouts(out, loadConfig(rawConfig()));
    expect(report).toMatchObject({
      rows: 12,
      calls: 36,
      replayedCalls: 36,
      maxReplayDifference: 0,
      faults: [],
    });

    const again = await run({ rollout: { group_size: 2 } }, tasks(6));
    expect(again.summary).toMatchObject({ rollouts: 12, rolloutsPerMinute: 0 });
    expect(readRows()).toEqual(rows);
  });

  it("O3. gives a new attempt a new id and one row", async () => {
    const rollout = { max_attempts: 2 };
    const { summary, events } = await run({ harness: "flaky", rollout }, tasks(2));
    expect(summary).toMatchObject({ rollouts: 2, completed: 2, masked: 0 });
    const ids = readRows().map((row) => row["_ng_rollout_id"]);
    expect(ids.sort()).toEqual(["0-0-a1", "1-0-a1"]);
    expect(events.filter(({ kind }) => kind === "rollout_retry")).toHaveLength(2);
  });

  it("O3. leaves nothing of a given-up attempt that looks complete, however whole its records are", async () => {
    await run({ harness: "late", rollout: { max_attempts: 2 } }, tasks(2));
    expect(
      readRows()
        .map((row) => row["_ng_rollout_id"])
        .sort(),
    ).toEqual(["0-0-a1", "1-0-a1"]);
    expect(await stored("0-0")).toMatchObject({ incompleteReasons: ["ABANDONED"] });
    expect((await stored("1-0"))?.entries).toHaveLength(3);
  });

  it("captures nothing when capture is off, makes no folder and says so", async () => {
    const { summary, events } = await run({ capture: { enabled: false } }, tasks(2));
    expect(summary).toMatchObject({ rollouts: 2, masked: 0, notRebuilt: 0, evaluationOnly: true });
    expect(events).toContainEqual({
      kind: "warning",
      message: expect.stringContaining("nothing is captured"),
    });
    for (const row of readRows()) {
      expect(row).not.toHaveProperty("_ng_token_capture");
      expect(row).not.toHaveProperty("mask_sample");
    }
    expect(fs.existsSync(path.join(folder, "captures"))).toBe(false);
  });

  it("captures and leaves rows alone with rebuild_response: false", async () => {
    const { summary } = await run({ capture: { rebuild_response: false } }, tasks(2));
    expect(summary).toMatchObject({ rollouts: 2, masked: 0, notRebuilt: 0 });
    for (const row of readRows()) {
      expect(row).not.toHaveProperty("_ng_token_capture");
      expect(row).not.toHaveProperty("mask_sample");
    }
  });

  it("K1. K2. exports what a run keeps, token for token as it was recorded, and nothing that one retired", async () => {
    const target = path.join(folder, "export.jsonl");
    const exported = (dir: string) => exportRollouts({ dir, format: "verl", out: target });
    const kept = path.join(folder, "kept");
    await run({ capture: { dir: kept, rebuild_response: false } }, tasks(3));
    expect(await exported(kept)).toMatchObject({ rows: 3, exported: 3, skipped: 0 });

    const [name = ""] = fs.readdirSync(kept);
    const store = new TokenCaptureStore({ dir: path.join(kept, name) });
    for (const line of fs.readFileSync(target, "utf8").trim().split("\n")) {
      const { prompt_ids, response_ids, response_mask, extra_fields } = JSON.parse(line);
      const { entries = [] } = (await store.peek(extra_fields.rollout_id)) ?? {};
      const [first, last] = [entries[0], entries.at(-1)];
      expect(entries).toHaveLength(3);
      expect(prompt_ids).toEqual([...(first?.prompt_token_ids ?? [])]);
      expect([...prompt_ids, ...response_ids]).toEqual([
        ...(last?.prompt_token_ids ?? []),
        ...(last?.generation_token_ids ?? []),
      ]);
      const sampled = response_ids.filter((_: number, at: number) => response_mask[at] === 1);
      expect(sampled).toEqual(entries.flatMap((entry) => [...entry.generation_token_ids]));
    }
    await store.close();

    out = path.join(folder, "again.jsonl");
    const retired = path.join(folder, "retired");
    await run({ capture: { dir: retired } }, tasks(1));
    expect(await exported(retired)).toMatchObject({ rows: 0, exported: 0, skipped: 0 });

    const refused = { format: "verl", out: path.join(folder, "x") } as const;
    const both = exportRollouts({ ...refused, rollouts: out, dir: kept });
    await expect(both).rejects.toThrow("--rollouts, --dir: exactly one");
    const empty = path.join(folder, "empty");
    fs.mkdirSync(empty);
    const none = exportRollouts({ ...refused, dir: empty });
    await expect(none).rejects.toMatchObject({ code: "RUN_DIRECTORY" });
    expect(fs.existsSync(refused.out)).toBe(false);
  });

  it("stops when too many rows are masked", async () => {
    const capture = { max_mask_fraction: 0.5, mask_fraction_min_samples: 2 };
    const agent = { concurrency: 1 };
    const { summary } = await run({ harness: "silent", capture, agent }, tasks(5));
    expect(summary.stopped?.reason).toBe("mask_fraction");
    expect(summary).toMatchObject({ rollouts: 2, masked: 2, remaining: 3 });
  });

  it("T3. O4. cancels at the deadline, leaves no row of what it cancelled, and goes on later", async () => {
    const list = tasks(2);
    const { summary } = await run({ harness: "stuck", rollout: { deadline_s: 1 } }, list);
    expect(summary).toMatchObject({ rollouts: 0, remaining: 2 });
    expect(summary.stopped?.reason).toBe("deadline");
    const later = await run({ harness: "stuck" }, list);
    expect(later.summary).toMatchObject({ rollouts: 2, remaining: 0, masked: 0 });
  });

  it("T1. checks everything before it makes anything", async () => {
    const [good, bad] = tasks(2);
    const list = [good!, { ...bad, files: { "../x": "" } }];
    await expect(run({}, list)).rejects.toMatchObject({ code: "TASK_INVALID" });
    expect(fs.readdirSync(folder)).toEqual([]);
  });
});

describe("corral run", () => {
  it("T2. O1. goes on after kill -9 without losing or repeating a row", async () => {
    const gate = path.join(folder, "gate");
    const gated = tasks(6, { "gate.txt": gate }).slice(2);
    const args = commandLine({ numWorkers: 2, rollout: { group_size: 2 } }, [
      ...tasks(2),
      ...gated,
    ]);
    const first = startCorral(args);
    await first.seen("[3/12]");
    first.child.kill("SIGKILL");
    await first.result;
    fs.writeFileSync(gate, "");
    const before = slots();
    expect(before.length).toBeGreaterThanOrEqual(3);
    expect(before.length).toBeLessThan(12);

    const second = await runCorral([...args, "--json"]);
    expect(second.code, second.stderr).toBe(0);
    expect(JSON.parse(second.stdout)).toMatchObject({ rollouts: 12, remaining: 0, notRebuilt: 0 });
    expect(slots().slice(0, before.length)).toEqual(before);
    expect(new Set(slots()).size).toBe(12);
    expect(readRows().filter(isTrainable)).toHaveLength(12);
    expect((await verifyRollouts(out, loadConfig(rawConfig()))).faults).toEqual([]);
  });

  it("T3. drains on SIGINT and exits with 1", async () => {
    const gate = path.join(folder, "gate");
    const gated = tasks(6, { "gate.txt": gate }).slice(1);
    const args = commandLine({}, [...tasks(1), ...gated]);
    const first = startCorral(args);
    await first.seen("[1/6]");
    first.child.kill("SIGINT");
    await first.seen("interrupted");
    fs.writeFileSync(gate, "");
    const drained = await first.result;
    expect(drained.code).toBe(1);
    expect(drained.stderr).toContain("stopped: interrupted");
    expect(slots().length).toBeLessThan(6);
    expect((await runCorral(args)).code).toBe(0);
    expect(readRows()).toHaveLength(6);
    expect(new Set(slots()).size).toBe(6);
  });

  it("U3. refuses a second process with the same --out", async () => {
    const args = commandLine({}, tasks(2, { "pause.txt": "30000" }));
    const first = startCorral(args);
    await first.seen("2 rollouts");
    const second = await runCorral(args);
    expect(second.code).toBe(2);
    expect(second.stderr).toMatch(/^corral: --out: another process runs with /m);
    first.child.kill("SIGKILL");
    await first.result;
  });

  it("exits with 1 and keeps the row when a rollout failed", async () => {
    const { code, stderr } = await runCorral(commandLine({ harness: "broken" }, tasks(1)));
    expect(code).toBe(1);
    expect(stderr).toContain("this harness is broken");
    expect(readRows()[0]).toMatchObject({ error: { code: "HARNESS_ERROR" } });
  });

  it("exits with 2 for a harness that does not start, and names the key", async () => {
    const { code, stderr } = await runCorral(commandLine({ harness: "nope" }, tasks(1)));
    expect(code).toBe(2);
    expect(stderr).toMatch(/^corral: responses_api_agents\.loop\.module: .*#nope/m);
  });

  it("exits with 2 for a missing claude, and says how to install it", async () => {
    const config = path.join(folder, "claude.yaml");
    const claude = { kind: "claude_code", model: "policy", binary: path.join(folder, "claude") };
    const agents = { loop: claude };
    fs.writeFileSync(config, JSON.stringify({ ...rawConfig(), responses_api_agents: agents }));
    const args = commandLine({}, tasks(1)).map((arg) => (arg.endsWith(".yaml") ? config : arg));
    const { code, stderr } = await runCorral(args);
    expect(code).toBe(2);
    expect(stderr).toMatch(/^corral: responses_api_agents\.loop: .*npm install/m);
  });

  it("exits with 2 and one line for a folder that cannot be written", async () => {
    fs.writeFileSync(path.join(folder, "captures"), "");
    const { code, stderr } = await runCorral(commandLine({}, tasks(1)));
    expect(code).toBe(2);
    expect(stderr).toMatch(/^corral: token_id_capture\.dir: cannot write .*\n$/);
  });
});
