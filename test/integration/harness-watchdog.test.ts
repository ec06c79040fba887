import { spawn } from "node:child_process";
import { once } from "node:events";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { Watchdog } from "../../dist/actors/agent-harness/watchdog.js";
import { isAlive, processesOf } from "../support/processes.js";

const DIST = fileURLToPath(new URL("../../dist", import.meta.url));
const PARENT = fileURLToPath(new URL("../fixtures/harness-parent.mjs", import.meta.url));

let tempRoot: string;
beforeEach(() => {
  tempRoot = fs.mkdtempSync(path.join(os.tmpdir(), "corral-test-"));
});
afterEach(() => fs.rmSync(tempRoot, { recursive: true, force: true }));

const logger = { info() {}, warn() {}, error() {} };

describe("the watchdog's client", () => {
  test("W2 W3 a watchdog that is killed comes back and still answers for what was registered", async () => {
    const roots = [path.join(tempRoot, "one"), path.join(tempRoot, "two words")];
    for (const root of roots) fs.mkdirSync(root);
    const watchdog = await Watchdog.start(logger);
    await watchdog.register(roots[0]!, null);
    const first = watchdog.pid!;
    process.kill(first, "SIGKILL");
    await watchdog.register(roots[1]!, null);
    expect(watchdog.pid).not.toBe(first);
    await watchdog.close();
    expect(fs.readdirSync(tempRoot)).toEqual([]);
  });

  test("W2 what was unregistered stays, and a watchdog that cannot be kept alive is an error", async () => {
    const root = path.join(tempRoot, "kept");
    fs.mkdirSync(root);
    const watchdog = await Watchdog.start(logger);
    await watchdog.register(root, null);
    watchdog.unregister(root);
    await watchdog.close();
    expect(fs.readdirSync(tempRoot)).toEqual(["kept"]);

    const doomed = await Watchdog.start(logger);
    const outcomes: unknown[] = [];
    for (let round = 0; round < 5; round++) {
      const { pid } = doomed;
      if (pid !== undefined) process.kill(pid, "SIGKILL");
      outcomes.push(await doomed.register(`${root}${round}`, null).catch((error) => error.code));
    }
    expect(outcomes).toContain("WATCHDOG_FAILED");
    await doomed.close();
  });
});

describe.runIf(process.platform === "linux")("the watchdog", () => {
  test.each([
    ["directory", 0],
    ["started", 1],
    ["registered", 1],
    ["running", 2],
  ])(
    "W1 P1 kill -9 of the parent at stage %s leaves no process and no directory",
    async (stage, atLeast) => {
      const marker = `${tempRoot}.ran`;
      const parent = spawn(process.execPath, [PARENT, stage, DIST, tempRoot, marker], {
        stdio: ["ignore", "pipe", "inherit"],
      });
      const [line] = await once(createInterface({ input: parent.stdout }), "line");
      const said: { watchdog: number; root: string } = JSON.parse(line);
      expect(fs.existsSync(path.join(said.root, "w", "a.txt"))).toBe(true);
      await expect.poll(() => processesOf(said.root).length).toBeGreaterThanOrEqual(atLeast);
      expect(isAlive(said.watchdog)).toBe(true);

      const exited = once(parent, "exit");
      parent.kill("SIGKILL");
      await exited;
      await expect.poll(() => isAlive(said.watchdog), { timeout: 5000, interval: 20 }).toBe(false);
      expect(processesOf(said.root)).toEqual([]);
      expect(fs.readdirSync(tempRoot)).toEqual([]);
      // What the watchdog does not answer for never runs.
      expect(fs.existsSync(marker)).toBe(stage === "running");
      fs.rmSync(marker, { force: true });
    },
  );
});
