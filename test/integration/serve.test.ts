/** Serving and rolling out in two processes, as users start them. */
import { once } from "node:events";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { fileURLToPath } from "node:url";
import { isTrainable } from "corral";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { runCorral, startCorral } from "../support/corral-cli.js";

const fixtures = fileURLToPath(new URL("../fixtures/orchestrator", import.meta.url));
let folder: string;
beforeEach(() => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), "corral-serve-"));
});
afterEach(() => fs.rmSync(folder, { recursive: true }));

function write(name: string, value: object): string {
  const file = path.join(folder, name);
  fs.writeFileSync(file, JSON.stringify(value));
  return file;
}

const base = () =>
  write("base.yaml", {
    responses_api_models: {
      policy: {
        engine: { kind: "embedded", seed: 0 },
        sampling_overrides: { temperature: 1, top_p: 1, top_k: 0, max_tokens: 64 },
      },
    },
    responses_api_agents: {
      loop: {
        kind: "function",
        module: `${path.join(fixtures, "harness.mjs")}#loop`,
        model: "policy",
        token_id_capture: true,
        concurrency: 2,
        timeout_s: 30,
      },
    },
    rollout: { group_size: 2 },
  });

const capture = () =>
  write("capture.yaml", { token_id_capture: { enabled: true, dir: path.join(folder, "store") } });

function tasksFile(): string {
  const file = path.join(folder, "tasks.jsonl");
  const tasks = [0, 1].map((index) => ({
    _ng_task_index: index,
    responses_create_params: { input: `Write the word heron into the file plan${index}.txt.` },
    verifier: `${path.join(fixtures, "verifiers.mjs")}#always`,
  }));
  fs.writeFileSync(file, tasks.map((task) => `${JSON.stringify(task)}\n`).join(""));
  return file;
}

const out = () => path.join(folder, "rollouts.jsonl");
const rows = () =>
  fs
    .readFileSync(out(), "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));

/** Serves while `use` runs. */
async function serving<T>(configs: string[], use: (url: string) => Promise<T>): Promise<T> {
  const server = startCorral(["serve", "--config", ...configs]);
  try {
    const lines = createInterface({ input: server.child.stdout as Readable });
    const [url] = (await once(lines, "line")) as [string];
    return await use(url);
  } finally {
    server.child.kill("SIGTERM");
    expect(await server.result).toMatchObject({ code: 0, signal: null });
  }
}

const runAgainst = (url: string, configs: string[]) =>
  runCorral(
    ["run", "--config", ...configs, "--tasks", tasksFile(), "--out", out()].concat("--server", url),
  );

describe("corral serve", () => {
  test("V1. V2. the capture overlay given to the server only still gives rebuilt, trainable rows", async () => {
    await serving([base(), capture()], async (url) => {
      const run = await runAgainst(url, [base()]);
      expect(run.stderr).not.toContain("not rebuilt");
      expect(run.code, run.stderr).toBe(0);
      const capabilities = await (await fetch(`${new URL(url).origin}/capabilities`)).json();
      expect(capabilities).toMatchObject({
        models: ["policy"],
        token_id_capture: { enabled: true, dir: path.join(folder, "store") },
      });
      expect(JSON.stringify(capabilities)).not.toMatch(/kwargs|secret/i);
    });
    expect(rows()).toHaveLength(4);
    expect(rows().filter(isTrainable)).toHaveLength(4);
    for (const row of rows())
      expect(row._ng_token_capture).toMatchObject({ chains: 1, delivered_fraction: 1 });
  });

  test("the records of a rollout are inspected over the running server, sealed or not", async () => {
    await serving([base(), capture()], async (url) => {
      const ask = (method: string, args: unknown[], target = "store") =>
        fetch(`${url}/control`, { method: "POST", body: JSON.stringify({ target, method, args }) });
      expect((await ask("open", ["mine"])).status).toBe(200);
      const inspect = (id: string, ...more: string[]) =>
        runCorral(["inspect", id, "--server", url, ...more]);
      const live = await inspect("mine", "--json");
      expect(JSON.parse(live.stdout)).toMatchObject({
        rollout_id: "mine",
        masked: true,
        calls: [],
      });
      const unknown = await inspect("other");
      expect([unknown.code, unknown.stderr]).toEqual([
        2,
        "corral: --server: the server holds nothing of rollout other\n",
      ]);
      const both = await inspect("mine", "--dir", folder);
      expect(both.code).toBe(2);
      expect(both.stderr).toContain("--entries, --dir, --server: exactly one must be given");
    });
  });

  test("O3. an attempt that the run gave up looks complete to nobody who asks the server", async () => {
    const late = write("late.yaml", {
      responses_api_agents: { loop: { module: `${path.join(fixtures, "harness.mjs")}#late` } },
      rollout: { max_attempts: 2 },
    });
    await serving([base(), capture()], async (url) => {
      const run = await runAgainst(url, [base(), late]);
      expect(run.code, run.stderr).toBe(0);
      const inspect = await runCorral(["inspect", "0-0", "--server", url, "--json"]);
      const givenUp = JSON.parse(inspect.stdout);
      expect(givenUp.masked).toBe(true);
      expect(givenUp.metrics.mask_reasons).toEqual([
        { code: "CAPTURE_INCOMPLETE", detail: "ABANDONED" },
      ]);
      expect(givenUp.calls).toHaveLength(3);
    });
    expect(rows().map((row) => row._ng_rollout_id.slice(-3))).toEqual(Array(4).fill("-a1"));
  });

  test("a second run with the same rollout ids is refused by name; the first one's rows stay its own", async () => {
    await serving([base(), capture()], async (url) => {
      const first = await runAgainst(url, [base()]);
      expect(first.code, first.stderr).toBe(0);
      const before = fs.readFileSync(out(), "utf8");
      const args = ["--config", base(), "--tasks", tasksFile(), "--server", url];
      const second = await runCorral(["run", ...args, "--out", path.join(folder, "second.jsonl")]);
      expect(second.code).toBe(2);
      expect(second.stderr).toMatch(
        /_ng_rollout_id: "[01]-[01]" was opened on this server before, by another run/,
      );
      expect(fs.readFileSync(out(), "utf8")).toBe(before);
      const rest = path.join(folder, "second.jsonl");
      expect(fs.existsSync(rest) ? fs.readFileSync(rest, "utf8") : "").toBe("");
    });
  });

  test("V1. a block of the run's own that differs is refused with both values; nothing is written", async () => {
    await serving([base(), capture()], async (url) => {
      const other = write("other.yaml", {
        token_id_capture: { enabled: true, dir: path.join(folder, "elsewhere") },
      });
      const run = await runAgainst(url, [base(), other]);
      expect(run.code).toBe(2);
      expect(run.stderr).toContain("token_id_capture.dir");
      expect(run.stderr).toContain("elsewhere");
      expect(run.stderr).toContain(path.join(folder, "store"));
      expect(fs.existsSync(out())).toBe(false);
    });
  });

  test("W1. W2. without its secret path nothing can be opened, and no other method is answered", async () => {
    await serving([base()], async (url) => {
      const { origin } = new URL(url);
      const post = (at: string, body: object) =>
        fetch(`${at}/control`, { method: "POST", body: JSON.stringify(body) });
      expect((await post(origin, { target: "attach" })).status).toBe(404);
      expect(
        (await post(url, { target: "worker", name: "policy-0", method: "close", args: [] })).status,
      ).toBe(500);
      expect((await post(url, { target: "attach" })).status).toBe(200);
    });
  });

  test("a server that is not there is named with exit code 2", async () => {
    const run = await runAgainst("http://127.0.0.1:9", [base()]);
    expect(run.code).toBe(2);
    expect(run.stderr).toMatch(/--server: no Corral server answers there/);
  });
});
