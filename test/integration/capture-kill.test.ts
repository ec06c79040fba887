/** The store against what processes and disks do to it: each child uses the built package. */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { acquireRunLock, TokenCaptureStore } from "corral/capture";
import { afterEach, beforeEach, describe, expect, test } from "vitest";

const fixture = (name: string) => fileURLToPath(new URL(`../fixtures/${name}`, import.meta.url));
const isRoot = process.getuid?.() === 0;

let dir = "";
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "corral-kill-"));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

/** The lines of a child; kills it with SIGKILL when `until` says so. */
async function linesOf(child: ChildProcess, until: (count: number) => boolean): Promise<string[]> {
  const lines: string[] = [];
  if (child.stdout === null) throw new Error("no stdout");
  const closed = once(child, "close");
  for await (const line of createInterface({ input: child.stdout })) {
    lines.push(line);
    if (until(lines.length)) child.kill("SIGKILL");
  }
  await closed;
  return lines;
}

describe("kill -9", () => {
  test("T1 no acknowledged put is lost, and the rollout cannot look complete", async () => {
    for (let round = 0; round < 5; round += 1) {
      const rolloutId = `r${round}`;
      const killAfter = 1 + Math.floor(Math.random() * 120);
      const child = spawn(process.execPath, [
        fixture("capture-writer.mjs"),
        dir,
        rolloutId,
        "2000",
      ]);
      const acknowledged = await linesOf(child, (count) => count === killAfter);
      expect(child.signalCode).toBe("SIGKILL");
      expect(acknowledged.length).toBeGreaterThanOrEqual(killAfter);

      const store = new TokenCaptureStore({ dir });
      expect(await store.abandonOpen()).toEqual([rolloutId]);
      const snapshot = await store.freeze(rolloutId);
      const stored = snapshot.entries.map((entry) => entry.model_call_id);
      expect(acknowledged.filter((id) => !stored.includes(id))).toEqual([]);
      // One more may be stored: its acknowledgement was cut off.
      expect(stored.length - acknowledged.length).toBeLessThanOrEqual(1);
      expect(snapshot.incompleteReasons).toContain("ABANDONED");
      expect(snapshot.incompleteReasons).not.toContain("DIGEST_MISMATCH");
      await store.close();
    }
  });

  test("the run lock goes with its process", async () => {
    const holder = spawn(process.execPath, [fixture("capture-lock.mjs"), dir]);
    const lines = createInterface({ input: holder.stdout });
    expect(await once(lines, "line")).toEqual(["held"]);
    expect(() => acquireRunLock(dir)).toThrow(expect.objectContaining({ code: "RUN_LOCKED" }));

    holder.kill("SIGKILL");
    await once(holder, "close");
    const lock = acquireRunLock(dir);
    const refused = execFileSync(process.execPath, [fixture("capture-lock.mjs"), dir], {
      encoding: "utf8",
    });
    expect(JSON.parse(refused)).toMatchObject({ code: "RUN_LOCKED" });
    lock.release();
  });
});

describe("the disk", () => {
  test("T4 a write that the disk refuses is one clear error, and loses nothing acknowledged", async () => {
    const limited = 'ulimit -f 2048; exec "$@"';
    const command = [process.execPath, fixture("capture-writer.mjs"), dir, "r", "20000"];
    const child = spawn("bash", ["-c", limited, "bash", ...command]);
    const lines = await linesOf(child, () => false);
    const error: unknown = JSON.parse(lines.pop() ?? "");
    expect(error).toMatchObject({
      code: "STORE_FAILED",
      cause: expect.stringMatching(/^SQLITE_(IOERR|FULL)/),
    });
    expect(lines.length).toBeGreaterThan(3);

    const store = new TokenCaptureStore({ dir });
    const snapshot = await store.freeze("r");
    const stored = snapshot.entries.map((entry) => entry.model_call_id);
    expect(lines.filter((id) => !stored.includes(id))).toEqual([]);
    await store.close();
  });

  test("F1 a read-only directory gives one error that names it", async () => {
    chmodSync(dir, 0o555);
    // The superuser may write anywhere, so it lets another user try.
    const user = isRoot ? { uid: 65_534, gid: 65_534 } : {};
    const child = spawn(process.execPath, [fixture("capture-lock.mjs"), dir], user);
    const [line] = await linesOf(child, () => false);
    chmodSync(dir, 0o700);
    const error: unknown = JSON.parse(line ?? "");
    expect(error).toMatchObject({ code: "STORE_FAILED", message: expect.stringContaining(dir) });
    expect(error).toMatchObject({ message: expect.stringContaining("EACCES") });
  });
});
