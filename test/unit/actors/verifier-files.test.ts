import { execFileSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import {
  readWorkFile,
  WORK_FILE_MAX_BYTES,
} from "../../../src/actors/agent-harness/verifier-files.js";

let base: string;
let workDir: string;
beforeEach(() => {
  base = fs.mkdtempSync(path.join(os.tmpdir(), "corral-test-"));
  workDir = path.join(base, "w");
  fs.mkdirSync(path.join(workDir, "sub"), { recursive: true });
  fs.writeFileSync(path.join(base, "secret"), "secret");
});
afterEach(() => fs.rmSync(base, { recursive: true }));

const refused = expect.objectContaining({ code: "WORK_FILE_REFUSED" });

describe("readWorkFile", () => {
  test("reads a file, also through a symlink that stays inside", async () => {
    fs.writeFileSync(path.join(workDir, "sub/a"), "blüe");
    fs.symlinkSync("sub", path.join(workDir, "inside"));
    expect(await readWorkFile(workDir, "sub/a")).toBe("blüe");
    expect(await readWorkFile(workDir, "inside/a")).toBe("blüe");
  });

  test("is null where nothing is", async () => {
    expect(await readWorkFile(workDir, "none")).toBeNull();
    fs.writeFileSync(path.join(workDir, "f"), "");
    expect(await readWorkFile(workDir, "f/below")).toBeNull();
  });

  test("V1 refuses what leads out: link, linked directory, dots, absolute", async () => {
    fs.symlinkSync("../secret", path.join(workDir, "link"));
    fs.symlinkSync("..", path.join(workDir, "up"));
    fs.symlinkSync("loop", path.join(workDir, "loop"));
    for (const name of [
      "link",
      "up/secret",
      "../secret",
      "sub/../../secret",
      path.join(base, "secret"),
      "",
      "a\0",
      "loop",
    ])
      await expect(readWorkFile(workDir, name), name).rejects.toEqual(refused);
  });

  test("V1 refuses a directory and a FIFO without waiting for it", async () => {
    execFileSync("mkfifo", [path.join(workDir, "fifo")]);
    await expect(readWorkFile(workDir, "sub")).rejects.toEqual(refused);
    await expect(readWorkFile(workDir, "fifo")).rejects.toEqual(refused);
  });

  test("V2 refuses what is larger than the limit and takes what is as large", async () => {
    fs.writeFileSync(path.join(workDir, "large"), Buffer.alloc(WORK_FILE_MAX_BYTES, 97));
    expect((await readWorkFile(workDir, "large"))?.length).toBe(WORK_FILE_MAX_BYTES);
    fs.appendFileSync(path.join(workDir, "large"), "a");
    await expect(readWorkFile(workDir, "large")).rejects.toEqual(refused);
  });
});
