import { spawn } from "node:child_process";
import { once } from "node:events";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, test } from "vitest";

const DIST = fileURLToPath(new URL("../../dist", import.meta.url));
const PARENT = fileURLToPath(new URL("../fixtures/harness-parent.mjs", import.meta.url));

let tempRoot: string;
beforeEach(() => {
  tempRoot = fs.mkdtempSync(path.join(os.tmpdir(), "corral-test-"));
});
afterEach(() => fs.rmSync(tempRoot, { recursive: true, force: true }));

/** Live processes (zombies have no command line) whose environment or working directory names the directory. */
function processesOf(root: string): string[] {
  return fs.readdirSync("/proc").filter((pid) => {
    if (!/^\d+$/.test(pid)) return false;
    try {
      if (fs.readFileSync(`/proc/${pid}/cmdline`, "latin1") === "") return false;
      if (fs.readlinkSync(`/proc/${pid}/cwd`).startsWith(root)) return true;
      return fs.readFileSync(`/proc/${pid}/environ`, "latin1").includes(root);
    } catch {
      return false;
    }
  });
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return !fs.readFileSync(`/proc/${pid}/stat`, "latin1").includes(") Z ");
  } catch {
    return false;
  }
}

describe.runIf(process.platform === "linux")("the watchdog", () => {
  test.each([
    ["directory", 0],
    ["started", 1],
    ["registered", 1],
    ["running", 2],
  ])(
    "W1 P1 kill -9 of the parent at stage %s leaves no process and no directory",
    async (stage, atLeast) => {
      const parent = spawn(process.execPath, [PARENT, stage, DIST, tempRoot], {
        stdio: ["ignore", "pipe", "inherit"],
      });
      const [line] = await once(createInterface({ input: parent.stdout }), "line");
      const said: { watchdog: number; root: string } = JSON.parse(line);
      expect(fs.existsSync(path.join(said.root, "w", "a.txt"))).toBe(true);
      expect(processesOf(said.root).length).toBeGreaterThanOrEqual(atLeast);
      expect(isAlive(said.watchdog)).toBe(true);

      const exited = once(parent, "exit");
      parent.kill("SIGKILL");
      await exited;
      await expect.poll(() => isAlive(said.watchdog), { timeout: 5000, interval: 20 }).toBe(false);
      expect(processesOf(said.root)).toEqual([]);
      expect(fs.readdirSync(tempRoot)).toEqual([]);
    },
  );
});
