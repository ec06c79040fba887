/** `corral prune` and `keep_masked_mb` over run directories as runs leave them. */
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { acquireRunLock, TokenCaptureStore } from "corral/capture";
import { afterEach, beforeEach, expect, test } from "vitest";
import { runCorral } from "../support/corral-cli.js";

let folder: string;
beforeEach(() => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), "corral-prune-"));
});
afterEach(() => fs.rmSync(folder, { recursive: true }));

async function runDirectory(name: string): Promise<string> {
  const dir = path.join(folder, name);
  const store = new TokenCaptureStore({ dir });
  for (const id of ["masked", "waiting", "dropped"]) {
    await store.open(id);
    await store.markIncomplete(id);
    await store.freeze(id);
  }
  await store.drop("dropped", await store.freeze("dropped"));
  await store.close();
  const finished = {
    slot: { pass: 0, taskIndex: 0, rolloutIndex: 0 },
    attempt: 0,
    rolloutId: "waiting",
    captured: true,
    task: { _ng_task_index: 0, responses_create_params: { input: "x" } },
    model: "policy",
    outcome: { reward: 1, finalText: null },
  };
  const line = JSON.stringify({ state: "finished", finished, ledgers: [] });
  fs.writeFileSync(path.join(dir, "journal.jsonl"), `${line}\n`);
  return dir;
}

async function prune(...args: string[]) {
  const { code, stdout, stderr } = await runCorral(["prune", "--dir", folder, "--json", ...args]);
  expect(code, stderr).toBe(0);
  return (JSON.parse(stdout) as { runs: Record<string, unknown>[] }).runs;
}

test("Z1 Z2 removes what is over, and nothing of a run in use or of a rollout that waits", async () => {
  const over = await runDirectory("over");
  const inUse = await runDirectory("running");
  const lock = acquireRunLock(inUse);
  expect(await prune("--older-than", "1d", "--masked")).toEqual([
    { dir: over, inUse: false, rollouts: 0, bytes: 0, tombstones: 0 },
    { dir: inUse, inUse: true, rollouts: 0, bytes: 0, tombstones: 0 },
  ]);

  const [first] = await prune("--older-than", "0s", "--masked");
  expect(first).toMatchObject({ inUse: false, rollouts: 1, tombstones: 1 });
  lock.release();
  const store = new TokenCaptureStore({ dir: over });
  await expect(store.freeze("masked")).rejects.toMatchObject({ code: "ROLLOUT_RETIRED" });
  expect(await store.freeze("waiting")).toMatchObject({ incompleteReasons: ["LOST_CALL"] });
  await store.close();
});

test.each([
  [["--older-than", "soon"], /--older-than: "soon" is not valid; allowed: e\.g\. 90s/],
  [["--dir", "/nowhere"], /--dir: \/nowhere holds no capture\.db/],
])("%j exits with 2 and one line", async (args, message) => {
  const { code, stderr } = await runCorral(["prune", "--dir", folder, ...args]);
  expect(code).toBe(2);
  expect(stderr).toMatch(message);
});
