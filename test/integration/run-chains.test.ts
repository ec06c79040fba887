/** What a run makes of rollouts whose calls are more than one chain, and of runs that only look healthy. */
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import {
  flattenTrajectory,
  inspectStores,
  isTrainable,
  loadConfig,
  type RunEvent,
  runRollouts,
  trajectoryRows,
  verifyRollouts,
} from "corral";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { runCorral } from "../support/corral-cli.js";

const fixtures = fileURLToPath(new URL("../fixtures/orchestrator", import.meta.url));
let folder: string;
let out: string;
beforeEach(() => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), "corral-chains-"));
  out = path.join(folder, "rollouts.jsonl");
});
afterEach(() => fs.rmSync(folder, { recursive: true }));

function rawConfig(harness: string, capture: object = {}, concurrency = 2) {
  const sampling_overrides = { temperature: 1, top_p: 1, top_k: 0, max_tokens: 32 };
  return {
    token_id_capture: { enabled: true, dir: path.join(folder, "captures"), ...capture },
    responses_api_models: {
      policy: { engine: { kind: "embedded", seed: 0 }, num_workers: 2, sampling_overrides },
    },
    responses_api_agents: {
      own: {
        kind: "function",
        module: `${path.join(fixtures, "harness.mjs")}#${harness}`,
        model: "policy",
        token_id_capture: true,
        concurrency,
        timeout_s: 60,
      },
    },
    rollout: { seed: 0 },
  };
}

const tasks = (count: number) =>
  Array.from({ length: count }, (_, index) => ({
    _ng_task_index: index,
    responses_create_params: { input: `Write the word heron into the file plan${index}.txt.` },
    verifier: `${path.join(fixtures, "verifiers.mjs")}#always`,
  }));

async function run(harness: string, capture: object, count: number, concurrency = 2) {
  const events: RunEvent[] = [];
  const config = loadConfig(rawConfig(harness, capture, concurrency));
  const summary = await runRollouts({
    config,
    tasks: tasks(count),
    out,
    onEvent: (event) => events.push(event),
  });
  const warnings = events.flatMap((event) => (event.kind === "warning" ? [event.message] : []));
  return { summary, warnings, config };
}

interface Row {
  readonly response: { readonly output: readonly object[]; readonly output_form?: string };
  readonly _ng_trajectories?: readonly { readonly purpose: string; readonly mask_sample?: true }[];
  readonly _ng_token_capture: Record<string, unknown>;
}

function readRows(): Row[] {
  return fs
    .readFileSync(out, "utf8")
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as Row);
}

describe("delivery", () => {
  it("all: main thread and sub-agent are trained, a title is labelled; every token can be replayed", async () => {
    const capture = { delivery: "all", output_form: "delta" };
    const { summary, config } = await run("delegating", capture, 3);
    expect(summary).toMatchObject({ rollouts: 3, completed: 3, masked: 0, meanCalls: 5 });
    for (const row of readRows()) {
      expect(
        row._ng_trajectories?.map(({ purpose, mask_sample }) => [purpose, mask_sample]),
      ).toEqual(
        expect.arrayContaining([
          ["title", true],
          ["subagent", undefined],
        ]),
      );
      expect(row.response.output_form).toBe("delta");
      const rows = trajectoryRows(row);
      expect(rows.map(isTrainable).sort()).toEqual([false, true, true]);
      const captured = row._ng_token_capture["generated_tokens_captured"];
      const owned = rows.map(({ response }) => flattenTrajectory(response).lossMask);
      const tokens = owned.flatMap((mask) => [...mask]).reduce((sum, one) => sum + one, 0);
      expect(tokens).toBe(captured);
    }
    const report = await verifyRollouts(out, config);
    expect(report).toMatchObject({
      calls: 15,
      replayedCalls: 15,
      maxReplayDifference: 0,
      faults: [],
    });
  });

  it("main: the chain of the final answer stands alone beside a title and a sub-agent", async () => {
    const { summary } = await run("delegating", {}, 2);
    expect(summary).toMatchObject({ rollouts: 2, masked: 0, meanChains: 3 });
    for (const row of readRows()) {
      expect(row._ng_token_capture).toMatchObject({
        roots: 3,
        terminal_attribution: { method: "message_id", chain: "delivered" },
      });
      expect(row).not.toHaveProperty("_ng_trajectories");
      expect(isTrainable(row)).toBe(true);
    }
  });
});

describe("health", () => {
  it("one call in every rollout although tools were offered is told before the end", async () => {
    const { summary, warnings } = await run("once", {}, 9);
    expect(summary).toMatchObject({ masked: 0, captured: 9 });
    expect(warnings).toContainEqual(expect.stringMatching(/^every rollout \(8\) has one call/));
    expect(summary.health).toContainEqual(
      expect.stringMatching(/^every rollout \(9\) has one call/),
    );
  });

  it("too many masked rows stop the run with exit code 1 and the reason, also at its last row", async () => {
    const config = path.join(folder, "corral.yaml");
    const tasksFile = path.join(folder, "tasks.jsonl");
    const limits = { max_mask_fraction: 0.5, mask_fraction_min_samples: 2 };
    fs.writeFileSync(config, JSON.stringify(rawConfig("twice", limits)));
    fs.writeFileSync(
      tasksFile,
      tasks(2)
        .map((task) => `${JSON.stringify(task)}\n`)
        .join(""),
    );
    const args = ["run", "--config", config, "--tasks", tasksFile, "--out", out];
    const { code, stderr } = await runCorral(args);
    expect(code).toBe(1);
    expect(stderr).toMatch(
      /stopped: 2 of 2 rows are masked; token_id_capture.max_mask_fraction is 0.5/,
    );
    expect(stderr).toMatch(/all 2 captured rollouts are masked/);
    // What the store keeps of a masked rollout explains it.
    const explained = await runCorral(["explain", "0-0", "--dir", path.join(folder, "captures")]);
    expect(explained.stdout).toMatch(/masked: UNRESOLVED_RETRY/);
    expect(explained.stdout.match(/: retry \(UNRESOLVED_RETRY\)/g)).toHaveLength(2);
  });
});

describe("retention", () => {
  const stored = async () => {
    const [store] = await inspectStores(path.join(folder, "captures"));
    if (store === undefined) throw new Error("the run has a store");
    return store;
  };

  it("keep_masked_mb bounds the evidence of masked rollouts while a run goes on and when it starts again; no row goes", async () => {
    // Each leaves about 3 kB: two or so fit.
    const keep_masked_mb = 0.007;
    const { summary } = await run("twice", { keep_masked_mb }, 4, 1);
    expect(summary).toMatchObject({ rollouts: 4, masked: 4 });
    const { rollouts, recordBytes, frozenIds, masked, maskReasons } = await stored();
    expect(recordBytes).toBeLessThanOrEqual(keep_masked_mb * 1e6);
    expect(rollouts.frozen).toBeGreaterThan(0);
    expect(rollouts).toEqual({ open: 0, frozen: masked, retired: 4 - masked });
    // One after the other: the newest stay.
    expect(frozenIds).toEqual(["0-0", "1-0", "2-0", "3-0"].slice(-masked));
    expect(maskReasons).toEqual({ UNRESOLVED_RETRY: masked, MULTIPLE_ROOTS: masked });

    const rows = fs.readFileSync(out, "utf8");
    await run("twice", { keep_masked_mb: 0 }, 4, 1);
    expect(await stored()).toMatchObject({
      rollouts: { open: 0, frozen: 0, retired: 4 },
      calls: 0,
      recordBytes: 0,
    });
    expect(fs.readFileSync(out, "utf8")).toBe(rows);
    expect(readRows()).toHaveLength(4);
  });
});
