import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type ConfigError, isConfigError } from "../../../src/orchestrator/errors.js";
import { openRunDirectory } from "../../../src/orchestrator/run-directory.js";

let folder: string;
beforeEach(() => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), "corral-run-"));
});
afterEach(() => fs.rmSync(folder, { recursive: true }));

const request = (fields: object = {}) => ({
  out: path.join(folder, "rollouts.jsonl"),
  baseDir: path.join(folder, "runs"),
  baseDirField: "token_id_capture.dir",
  tasksDigest: "t1",
  groupSize: 2,
  configDigest: "c1",
  ...fields,
});

function refusal(fields: object): ConfigError {
  try {
    openRunDirectory(request(fields)).release();
  } catch (error) {
    if (isConfigError(error)) return error;
    throw error;
  }
  throw new Error("the run was opened");
}

describe("openRunDirectory", () => {
  it("U1. makes a private folder and goes on with it", () => {
    const first = openRunDirectory(request());
    expect(first).toMatchObject({ resumed: false, configChanged: false });
    expect(fs.statSync(first.dir).mode & 0o777).toBe(0o700);
    expect(path.dirname(first.dir)).toBe(path.join(folder, "runs"));
    first.release();
    const second = openRunDirectory(request({ configDigest: "c2" }));
    expect(second).toMatchObject({
      resumed: true,
      configChanged: true,
      runId: first.runId,
      dir: first.dir,
    });
    second.release();
  });

  it("U2. refuses other tasks, another group size, and a file of no run", () => {
    openRunDirectory(request()).release();
    expect(refusal({ tasksDigest: "t2" }).message).toContain("has other tasks");
    expect(refusal({ groupSize: 3 }).message).toContain("has rollout.group_size 2, not 3");
    fs.writeFileSync(path.join(folder, "other.jsonl"), "{}\n");
    const other = refusal({ out: path.join(folder, "other.jsonl") });
    expect(other.code).toBe("RUN_MISMATCH");
    expect(other.message).toContain("belongs to no run");
    expect(fs.readFileSync(path.join(folder, "other.jsonl"), "utf8")).toBe("{}\n");
  });

  it("U3. refuses a second holder until the first lets go", () => {
    const first = openRunDirectory(request());
    expect(refusal({}).code).toBe("RUN_LOCKED");
    first.release();
    first.release();
    openRunDirectory(request()).release();
  });

  it("says once what is wrong with a folder that cannot be written", () => {
    fs.writeFileSync(path.join(folder, "runs"), "a file");
    const error = refusal({});
    expect(error.code).toBe("RUN_DIRECTORY");
    expect(error.message).toMatch(/^token_id_capture\.dir: cannot write .*runs \(E/);
    expect(fs.existsSync(path.join(folder, "rollouts.jsonl.run"))).toBe(false);
  });

  it("refuses a run whose folder is gone while its rows are there", () => {
    const first = openRunDirectory(request());
    first.release();
    fs.rmSync(first.dir, { recursive: true });
    openRunDirectory(request()).release();
    fs.writeFileSync(path.join(folder, "rollouts.jsonl"), "{}\n");
    fs.rmSync(first.dir, { recursive: true });
    expect(refusal({}).message).toContain("is gone");
  });

  it("keeps a run without a store beside its rows", () => {
    const { baseDir: _, ...bare } = request();
    const run = openRunDirectory(bare);
    expect(path.dirname(run.dir)).toBe(`${bare.out}.runs`);
    run.release();
  });
});
