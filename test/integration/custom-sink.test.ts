/** `examples/custom-sink` as a user runs it: a data plane in its own process, two workers, delivery in a third process. */
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath, pathToFileURL } from "node:url";
import { promisify } from "node:util";
import * as corral from "corral";
import {
  installTokenSource,
  isTrainable,
  loadConfig,
  runRollouts,
  type TokenSource,
  verifyRollouts,
} from "corral";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { runCorral } from "../support/corral-cli.js";

const example = fileURLToPath(new URL("../../examples/custom-sink/", import.meta.url));
const file = (name: string) => path.join(example, name);
const run = promisify(execFile);

let folder: string;
let plane: ChildProcess;
let url: string;

beforeEach(async () => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), "corral-custom-"));
  await startPlane();
});
afterEach(async () => {
  installTokenSource(undefined);
  await stopPlane("SIGTERM");
  fs.rmSync(folder, { recursive: true });
});

async function startPlane(): Promise<void> {
  plane = spawn(process.execPath, [file("data-plane.mjs"), path.join(folder, "plane")]);
  if (plane.stdout === null) throw new Error("no stdout");
  const [line] = await once(createInterface({ input: plane.stdout }), "line");
  url = String(line);
  process.env["DATA_PLANE_URL"] = url;
}

async function stopPlane(signal: NodeJS.Signals): Promise<void> {
  const ended = once(plane, "close");
  plane.kill(signal);
  await ended;
}

async function newSource(): Promise<TokenSource> {
  const { HttpSource } = (await import(pathToFileURL(file("adapter.mjs")).href)) as {
    HttpSource: new (kwargs: { url: string }) => TokenSource;
  };
  return new HttpSource({ url });
}

const rowsOf = (name: string): Record<string, unknown>[] =>
  fs
    .readFileSync(path.join(folder, name), "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));

function config(...more: object[]) {
  const files = more.map((value, index) => {
    const at = path.join(folder, `more-${index}.yaml`);
    fs.writeFileSync(at, JSON.stringify(value));
    return at;
  });
  return [file("corral.yaml"), ...files];
}

const withoutRebuild = { token_id_capture: { rebuild_response: false } };

describe("a data plane of one's own", () => {
  test("conforms, and a kill of it loses nothing that it answered", async () => {
    const checked = await runCorral(["conformance", "--config", ...config(), "--json"]);
    expect(checked.code, checked.stderr).toBe(0);
    const { passed } = JSON.parse(checked.stdout) as { passed: string[] };
    expect(passed).toContain("put.two-workers");
    expect(passed).toContain("lineage.cumulative-ids");

    const out = path.join(folder, "texts.jsonl");
    const tasks = file("tasks.jsonl");
    await runRollouts({ config: loadConfig(config(withoutRebuild)), tasks, out });
    const source = await newSource();
    const [row] = rowsOf("texts.jsonl");
    const before = await source.freeze(String(row?.["_ng_rollout_id"]));
    await stopPlane("SIGKILL");
    await startPlane();
    const after = await (await newSource()).freeze(String(row?.["_ng_rollout_id"]));
    expect(before.entries).toHaveLength(3);
    expect(after).toEqual(before);
  });

  test("serves a run with two workers, whose rows are trainable", async () => {
    const out = path.join(folder, "rows.jsonl");
    const summary = await runRollouts({
      config: loadConfig(config()),
      tasks: file("tasks.jsonl"),
      out,
    });
    expect(summary).toMatchObject({ rollouts: 8, masked: 0, notRebuilt: 0, meanCalls: 3 });
    expect(Object.keys(summary.callsPerWorker)).toHaveLength(2);
    expect(rowsOf("rows.jsonl").filter(isTrainable)).toHaveLength(8);
    const report = await verifyRollouts(out, loadConfig(config()));
    expect(report).toMatchObject({ maxReplayDifference: 0, faults: [] });
    const [row] = rowsOf("rows.jsonl");
    const source = await newSource();
    await expect(source.freeze(String(row?.["_ng_rollout_id"]))).rejects.toMatchObject({
      code: "ROLLOUT_RETIRED",
    });
  });

  test("delivers in another process that loads no server, no threads and no tokenizer", async () => {
    const out = path.join(folder, "texts.jsonl");
    const tasks = file("tasks.jsonl");
    const summary = await runRollouts({ config: loadConfig(config(withoutRebuild)), tasks, out });
    expect(summary).toMatchObject({ rollouts: 8, masked: 0, notRebuilt: 0 });
    for (const row of rowsOf("texts.jsonl")) {
      expect(row).not.toHaveProperty("_ng_token_capture");
      expect(row).not.toHaveProperty("mask_sample");
    }

    const trainable = path.join(folder, "trainable.jsonl");
    const coverage = path.join(folder, "coverage");
    const { stdout } = await run(process.execPath, [file("deliver.mjs"), url, out, trainable], {
      env: { ...process.env, NODE_V8_COVERAGE: coverage },
    });
    expect(JSON.parse(stdout)).toEqual({ delivered: 8, masked: 0, retired: 8 });
    expect(rowsOf("trainable.jsonl").filter(isTrainable)).toHaveLength(8);
    const scripts = fs
      .readdirSync(coverage)
      .map((name) => fs.readFileSync(path.join(coverage, name), "utf8"))
      .flatMap((text) => (JSON.parse(text) as { result: { url: string }[] }).result)
      .map((script) => script.url);
    expect(scripts.some((script) => script.includes("/dist/capture/"))).toBe(true);
    expect(
      scripts.filter((script) => /\/dist\/(actors|runtime|orchestrator)\//.test(script)),
    ).toEqual([]);
  });
});

describe("installTokenSource", () => {
  const noSource = { token_id_capture: { source: null } };

  test("takes the place of a source that the config does not name, and is never closed by us", async () => {
    const out = path.join(folder, "rows.jsonl");
    const tasks = file("tasks.jsonl");
    await expect(
      runRollouts({ config: loadConfig(config(noSource)), tasks, out }),
    ).rejects.toMatchObject({ field: "token_id_capture.source" });
    const source = await newSource();
    let closed = 0;
    installTokenSource({
      freeze: (id) => source.freeze(id),
      drop: (id, snapshot) => source.drop(id, snapshot),
      close: async () => {
        closed += 1;
      },
    });
    const summary = await runRollouts({ config: loadConfig(config(noSource)), tasks, out });
    expect(summary).toMatchObject({ rollouts: 8, masked: 0, notRebuilt: 0 });
    expect(rowsOf("rows.jsonl").filter(isTrainable)).toHaveLength(8);
    expect(closed).toBe(0);
  });

  test("wins over the store of the config", async () => {
    const asked: string[] = [];
    installTokenSource({
      freeze: async (rolloutId) => {
        asked.push(rolloutId);
        return {
          rolloutId,
          entries: [],
          incomplete: false,
          incompleteReasons: [],
          failedCalls: 0,
          abortedCalls: 0,
          snapshotId: "s",
          version: 0,
        };
      },
      drop: async () => true,
      close: async () => undefined,
    });
    const store = {
      token_id_capture: {
        dir: path.join(folder, "captures"),
        ...Object.fromEntries(["sink", "source", "lineage"].map((key) => [key, null])),
      },
    };
    const out = path.join(folder, "rows.jsonl");
    const summary = await runRollouts({
      config: loadConfig(config(store)),
      tasks: file("tasks.jsonl"),
      out,
    });
    expect(asked).toHaveLength(8);
    expect(summary).toMatchObject({ rollouts: 8, masked: 8, notRebuilt: 0 });
    expect(Object.keys(summary.maskReasons)).toContain("LEDGER_MISMATCH");
  });

  test("refuses what is no source; and there is no way to install a sink", () => {
    expect(() => installTokenSource({ freeze: () => undefined } as unknown as TokenSource)).toThrow(
      "installTokenSource: source: has no method drop, close",
    );
    expect(Object.keys(corral)).not.toContain("installTokenSink");
  });
});

describe("corral conformance", () => {
  test("exits with 1 and names the check that fails", async () => {
    const broken = path.join(folder, "broken.mjs");
    fs.writeFileSync(
      broken,
      `export { HttpSource } from ${JSON.stringify(pathToFileURL(file("adapter.mjs")).href)};
       export class Sink { async put() {} async markIncomplete() {} async close() {} }`,
    );
    const { code, stderr } = await runCorral([
      "conformance",
      "--config",
      ...config(),
      "--sink",
      `${broken}:Sink`,
    ]);
    expect(code).toBe(1);
    expect(stderr).toBe(
      "corral: conformance: put.visible-at-once: one record was acknowledged, 0 can be read\n",
    );
  });

  test.each([
    [
      ["--sink", "./nowhere.mjs:Sink", "--source", "./nowhere.mjs:Source"],
      /token_id_capture\.sink: .*does not load/,
    ],
    [[], /--sink: is missing; allowed: "module:Export"/],
  ])("%j exits with 2 and one line", async (args, message) => {
    const { code, stderr } = await runCorral(["conformance", ...args]);
    expect(code).toBe(2);
    expect(stderr).toMatch(message);
  });

  test("U2 a kwarg that the class does not know is a start-up error that names it", async () => {
    const wrong = { token_id_capture: { sink_kwargs: { url, ulr: "typo" } } };
    const out = path.join(folder, "rows.jsonl");
    await expect(
      runRollouts({ config: loadConfig(config(wrong)), tasks: file("tasks.jsonl"), out }),
    ).rejects.toMatchObject({
      code: "START_FAILED",
      field: "token_id_capture.sink_kwargs",
      message: expect.stringContaining("knows no kwarg ulr"),
    });
    expect(fs.existsSync(path.join(folder, "captures"))).toBe(false);
  });
});
