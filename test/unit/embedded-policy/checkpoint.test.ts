import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import {
  loadCheckpoint,
  saveCheckpoint,
  snapshotOf,
  untrainedSnapshot,
} from "../../../src/embedded-policy/index.js";
import { variedSnapshot } from "../../support/varied-snapshot.js";

const dir = await mkdtemp(join(tmpdir(), "corral-checkpoint-"));
afterAll(() => rm(dir, { recursive: true }));

/** A few weights, as after little training, with the awkward values. */
function sparseSnapshot() {
  const weights = new Float64Array(1 << 18);
  weights.set([1 / 3, -0, 5e-324, -1e300]);
  weights[weights.length - 1] = -2.5;
  return snapshotOf(weights, 3);
}

const bytesOf = (weights: Float64Array) => Buffer.from(Float64Array.from(weights).buffer);

async function damaged(change: (bytes: Buffer) => Buffer): Promise<string> {
  const path = join(dir, "damaged");
  await saveCheckpoint(path, sparseSnapshot());
  await writeFile(path, change(await readFile(path)));
  return path;
}

/** `bytes` after `write` has changed some of them in place. */
function patched(bytes: Buffer, write: () => unknown): Buffer {
  write();
  return bytes;
}

describe("checkpoints", () => {
  it.each([
    ["sparse", sparseSnapshot()],
    ["untrained", untrainedSnapshot()],
    ["dense", variedSnapshot()],
  ])("K1: %s weights come back bit for bit", async (name, snapshot) => {
    const path = join(dir, name);
    await saveCheckpoint(path, snapshot);
    const loaded = await loadCheckpoint(path, 9);
    expect(loaded.digest).toBe(snapshot.digest);
    expect(bytesOf(loaded.weights).equals(bytesOf(snapshot.weights))).toBe(true);
    expect(loaded.version).toBe(9);
    expect(loaded.weights.buffer).toBeInstanceOf(SharedArrayBuffer);
  });

  it.each<[string, (bytes: Buffer) => Buffer, string]>([
    ["empty", () => Buffer.alloc(0), "does not begin with CORRALPW"],
    ["other", (b) => Buffer.concat([Buffer.from("PK"), b]), "does not begin with CORRALPW"],
    ["cut", (b) => b.subarray(0, -5), "cannot be decompressed"],
    ["digest", (b) => patched(b, () => b.writeUInt8(b.readUInt8(20) ^ 1, 20)), "but names"],
    ["count", (b) => patched(b, () => b.writeUInt32LE(3, 12)), "cannot be decompressed"],
    ["more", (b) => patched(b, () => b.writeUInt32LE(30, 12)), "decompresses to"],
    ["huge", (b) => patched(b, () => b.writeUInt32LE(1e9, 12)), "claims 1000000000 weights"],
  ])("K1: names what is wrong with a file that is damaged: %s", async (_, change, message) => {
    const path = await damaged(change);
    const error = await loadCheckpoint(path).catch((e: unknown) => e);
    expect(error).toMatchObject({ name: "PolicyError", code: "CHECKPOINT_INVALID" });
    expect(String(error)).toContain(message);
    expect(String(error)).toContain(path);
  });

  it("K1: refuses a newer format by name", async () => {
    const path = await damaged((b) => patched(b, () => b.writeUInt32LE(2, 8)));
    await expect(loadCheckpoint(path)).rejects.toMatchObject({ code: "CHECKPOINT_TOO_NEW" });
  });

  it("K1: a missing file is CHECKPOINT_INVALID with its cause", async () => {
    const error = await loadCheckpoint(join(dir, "none")).catch((e: unknown) => e);
    expect(error).toMatchObject({ code: "CHECKPOINT_INVALID", cause: { code: "ENOENT" } });
  });

  it("K2: a failed write leaves nothing behind", async () => {
    const before = await readdir(dir);
    await expect(saveCheckpoint(join(dir, "no", "such"), sparseSnapshot())).rejects.toThrow();
    await saveCheckpoint(join(dir, "sparse"), sparseSnapshot());
    expect(await readdir(dir)).toEqual(before);
  });
});

describe("snapshotOf", () => {
  it("copies into shared memory, and equal weights have equal digests", () => {
    const weights = new Float64Array(1 << 18);
    const snapshot = snapshotOf(weights, 1);
    weights[5] = 1;
    expect(snapshot.weights[5]).toBe(0);
    expect(snapshotOf(new Float64Array(1 << 18).fill(-0), 2).digest).toBe(snapshot.digest);
  });

  it("refuses a wrong length and weights that are not finite", () => {
    expect(() => snapshotOf(new Float64Array(5), 0)).toThrow("length 5");
    const weights = new Float64Array(1 << 18);
    weights[17] = Number.NaN;
    expect(() => snapshotOf(weights, 0)).toThrow("weight 17 is NaN");
  });
});
