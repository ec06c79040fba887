/** The store against what processes and disks do to it: each child uses the built package. */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, closeSync, mkdtempSync, openSync, rmdirSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { acquireRunLock, TokenCaptureStore, type TokenEntry } from "corral/capture";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { isRoot, OTHER_USER, otherUserCanRun } from "../support/other-user.js";

const fixture = (name: string) => fileURLToPath(new URL(`../fixtures/${name}`, import.meta.url));

const canMount = isRoot && tryMount();

let dir = "";
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "corral-kill-"));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

/** A small file system of our own: containers often may not have one. */
function tryMount(): boolean {
  const at = mkdtempSync(join(tmpdir(), "corral-mount-"));
  try {
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=1m", "tmpfs", at], { stdio: "ignore" });
    execFileSync("umount", [at]);
    return true;
  } catch {
    return false;
  } finally {
    rmdirSync(at);
  }
}

/** Takes every free byte, as another user of the disk would. */
function fillDisk(path: string): void {
  const file = openSync(path, "w");
  try {
    for (;;) writeSync(file, Buffer.alloc(4096));
  } catch (error) {
    expect(error).toMatchObject({ code: "ENOSPC" });
  } finally {
    closeSync(file);
  }
}

function largeEntry(rolloutId: string, callId: string): TokenEntry {
  return {
    schema_version: 1,
    rollout_id: rolloutId,
    model_call_id: callId,
    model: "policy",
    prompt_token_ids: Int32Array.from({ length: 200_000 }, (_, at) => at),
    generation_token_ids: Int32Array.of(1),
    generation_log_probs: Float64Array.of(-0.5),
    output_items: [],
    token_item_index: null,
    created_at: 1000,
  };
}

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

  test.runIf(canMount)(
    "V1 a full disk refuses a put with one clear error, and its rollout is masked all the same",
    async () => {
      execFileSync("mount", ["-t", "tmpfs", "-o", "size=6m", "tmpfs", dir]);
      try {
        const store = new TokenCaptureStore({ dir });
        await store.open("r");
        await store.beginCall("r", "c0");
        fillDisk(join(dir, "others"));
        const put = store.put(largeEntry("r", "c0"));
        await expect(put).rejects.toMatchObject({
          code: "STORE_FAILED",
          message: expect.stringContaining("is full"),
        });
        expect((await store.freeze("r")).incompleteReasons).toContain("LOST_CALL");
        rmSync(join(dir, "others"));
        await store.open("next");
        await store.put(largeEntry("next", "c0"));
        expect(await store.freeze("next")).toMatchObject({ incomplete: false });
        await store.close();
      } finally {
        execFileSync("umount", [dir]);
      }
    },
  );

  test("T2 several processes write to one file, and every acknowledged put is there", async () => {
    const processes = ["a", "b", "c"].map((rolloutId) =>
      spawn(process.execPath, [fixture("capture-writer.mjs"), dir, rolloutId, "200"]),
    );
    const lines = await Promise.all(
      processes.map((child) => linesOf(child, (count) => count === 40)),
    );
    const store = new TokenCaptureStore({ dir });
    for (const [index, rolloutId] of ["a", "b", "c"].entries()) {
      const { entries } = await store.freeze(rolloutId);
      const stored = new Set(entries.map((entry) => entry.model_call_id));
      expect(lines[index]?.filter((id) => !stored.has(id))).toEqual([]);
    }
    await store.close();
  });

  // Where this checkout is closed to other users, there is nobody for whom the directory is read-only.
  const canTry = !isRoot || otherUserCanRun;
  test.runIf(canTry)("F1 a read-only directory gives one error that names it", async () => {
    chmodSync(dir, 0o555);
    // The superuser may write anywhere, so it lets another user try.
    const user = isRoot ? OTHER_USER : {};
    const child = spawn(process.execPath, [fixture("capture-lock.mjs"), dir], user);
    const [line] = await linesOf(child, () => false);
    chmodSync(dir, 0o700);
    const error: unknown = JSON.parse(line ?? "");
    expect(error).toMatchObject({ code: "STORE_FAILED", message: expect.stringContaining(dir) });
    expect(error).toMatchObject({ message: expect.stringContaining("EACCES") });
  });
});
