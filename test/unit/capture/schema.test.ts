import { chmodSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { describe, expect, test } from "vitest";
import { acquireRunLock } from "../../../src/capture/index.js";
import { APPLICATION_ID, openConnection, STORE_VERSION } from "../../../src/capture/schema.js";
import {
  checkFileSystem,
  FileIdentity,
  prepareDirectory,
} from "../../../src/capture/store-file.js";
import { codeOf, temporaryDirectory } from "../../support/capture.js";

describe("a connection", () => {
  test("Q1 the second connection to a file is as durable as the first", () => {
    const path = join(temporaryDirectory(), "capture.db");
    for (let i = 0; i < 2; i += 1) {
      const connection = openConnection(path);
      const pragma = (name: string) => connection.pragma(name, { simple: true });
      expect(pragma("journal_mode")).toBe("wal");
      expect(pragma("synchronous")).toBe(2);
      expect(pragma("busy_timeout")).toBe(10_000);
      expect(pragma("trusted_schema")).toBe(0);
      expect(pragma("user_version")).toBe(STORE_VERSION);
      expect(pragma("application_id")).toBe(APPLICATION_ID);
      connection.close();
    }
  });

  test("Q2 a file of a newer version is refused, and not changed", async () => {
    const path = join(temporaryDirectory(), "capture.db");
    openConnection(path).close();
    edit(path, `PRAGMA user_version = ${STORE_VERSION + 1}`);
    expect(await codeOf(() => openConnection(path))).toBe("SCHEMA_TOO_NEW");
    expect(read(path, "user_version")).toBe(STORE_VERSION + 1);
  });

  test("Q2 a database of something else is refused, and not changed", async () => {
    const path = join(temporaryDirectory(), "capture.db");
    edit(path, "CREATE TABLE mine(x)");
    expect(await codeOf(() => openConnection(path))).toBe("STORE_FAILED");
    expect(read(path, "journal_mode")).toBe("delete");
  });

  test("Q2 a file that is no database gives one clear error", () => {
    const dir = temporaryDirectory();
    // A directory where the file should be: SQLite cannot open it.
    expect(() => openConnection(dir)).toThrow(
      expect.objectContaining({ code: "STORE_FAILED", message: expect.stringContaining(dir) }),
    );
  });

  test("Q3 no column of a record can hold a log probability as REAL", () => {
    const path = join(temporaryDirectory(), "capture.db");
    const connection = openConnection(path);
    const columns = connection.pragma("table_info(entry)") as { name: string; type: string }[];
    const reals = columns.filter((column) => column.type === "REAL").map((column) => column.name);
    expect(reals).toEqual(["created_at"]);
    connection.close();
  });

  test.each([
    "SELECT id FROM entry WHERE rid = 1 AND call_id = 'c'",
    "SELECT id FROM entry WHERE rid = (SELECT rid FROM rollout WHERE rollout_id = 'r') AND lineage_key = x'00'",
    "DELETE FROM rollout WHERE state = 2 AND updated_at < 5",
    "SELECT 1 FROM intent WHERE rid = 1",
    "SELECT count(*) FROM ended WHERE rid = 1 AND outcome = 'failed'",
    "SELECT DISTINCT reason FROM lost WHERE rid = 1",
  ])("%s uses an index", (sql) => {
    const connection = openConnection(join(temporaryDirectory(), "capture.db"));
    const plan = connection.prepare(`EXPLAIN QUERY PLAN ${sql}`).all() as { detail: string }[];
    connection.close();
    for (const { detail } of plan) expect(detail).not.toMatch(/^SCAN/);
  });
});

describe("the directory", () => {
  test.each([
    0x6969,
    0xff534d42,
    0xff534d42 | 0,
    0xfe534d42,
    0x01021997,
    0x65735546,
    0x0bd00bd0,
    0x00c36400,
  ])("F2 file system %i is refused unless it is allowed", async (magic) => {
    expect(await codeOf(() => checkFileSystem("/d", magic, false))).toBe("NETWORK_FILE_SYSTEM");
    expect(await codeOf(() => checkFileSystem("/d", magic, true))).toBeUndefined();
  });

  test.each([0xef53, 0x01021994, 0x9123683e, 0x58465342])("F2 file system %i is local", (magic) => {
    expect(() => checkFileSystem("/d", magic, false)).not.toThrow();
  });

  // The superuser may write anywhere, so only another user can see this.
  test.runIf(process.getuid?.() !== 0)(
    "F1 a read-only directory gives one error that names it",
    () => {
      const dir = temporaryDirectory();
      chmodSync(dir, 0o500);
      expect(() => prepareDirectory(dir, false)).toThrow(
        expect.objectContaining({ code: "STORE_FAILED", message: expect.stringContaining(dir) }),
      );
      chmodSync(dir, 0o700);
    },
  );

  test("F3 a file that appears anew under its name is another file", async () => {
    const path = join(temporaryDirectory(), "missing");
    const files = new FileIdentity([path]);
    expect(() => files.check()).not.toThrow();
    edit(path, "CREATE TABLE t(x)");
    expect(await codeOf(() => files.check())).toBe("STORE_CLOSED");
  });
});

describe("the run lock", () => {
  test("is held by one, and free again after release", async () => {
    const dir = join(temporaryDirectory(), "run");
    const lock = acquireRunLock(dir);
    expect(await codeOf(() => acquireRunLock(dir))).toBe("RUN_LOCKED");
    expect(() => acquireRunLock(dir)).toThrow(JSON.stringify(dir));
    lock.release();
    lock.release();
    acquireRunLock(dir).release();
  });
});

function edit(path: string, sql: string): void {
  const connection = new Database(path);
  connection.exec(sql);
  connection.close();
}

function read(path: string, pragma: string): unknown {
  const connection = new Database(path);
  const value = connection.pragma(pragma, { simple: true });
  connection.close();
  return value;
}
