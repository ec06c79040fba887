import { copyFileSync, existsSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { describe, expect, test } from "vitest";
import {
  encodeEntry,
  entryDigest,
  STORE_FILE_NAME,
  StoreSink,
  TokenCaptureStore,
} from "../../../src/capture/index.js";
import { codeOf, entryOf, temporaryDirectory, temporaryStore } from "../../support/capture.js";

describe("a rollout's life", () => {
  test("a put record comes back at freeze with its digest", async () => {
    const { store } = temporaryStore();
    await store.open("r");
    await store.beginCall("r", "c1");
    const entry = entryOf("r", "c1");
    await store.put(entry);
    const snapshot = await store.freeze("r");
    expect(snapshot).toMatchObject({ incomplete: false, incompleteReasons: [], rolloutId: "r" });
    expect(snapshot.entries).toEqual([{ ...entry, digest: entryDigest(entry) }]);
    expect(snapshot.entries[0]?.prompt_token_ids).toBeInstanceOf(Int32Array);
    expect(snapshot.entries[0]?.generation_log_probs).toBeInstanceOf(Float64Array);
  });

  test("open refuses an id that exists in any state", async () => {
    const { store } = temporaryStore();
    await store.open("r");
    expect(await codeOf(() => store.open("r"))).toBe("ROLLOUT_EXISTS");
    const snapshot = await store.freeze("r");
    expect(await codeOf(() => store.open("r"))).toBe("ROLLOUT_EXISTS");
    expect(await store.drop("r", snapshot)).toBe(true);
    expect(await codeOf(() => store.open("r"))).toBe("ROLLOUT_EXISTS");
  });

  test("freeze is idempotent for an unchanged rollout", async () => {
    const { store } = temporaryStore();
    await store.open("r");
    await store.put(entryOf("r", "c1"));
    const first = await store.freeze("r");
    expect(await store.freeze("r")).toEqual(first);
    expect(first.snapshotId).not.toBe("");
  });

  test("a rollout never seen freezes to an empty snapshot and refuses later puts", async () => {
    const { store } = temporaryStore();
    const snapshot = await store.freeze("ghost");
    expect(snapshot).toMatchObject({ entries: [], incomplete: false });
    expect(await codeOf(() => store.put(entryOf("ghost", "c")))).toBe("ROLLOUT_FROZEN");
    expect(await codeOf(() => store.beginCall("ghost", "d"))).toBe("ROLLOUT_FROZEN");
  });

  test("drop answers true once, false for another snapshot or an unknown rollout", async () => {
    const { store } = temporaryStore();
    await store.open("r");
    const open = { snapshotId: "", version: 0 };
    expect(await store.drop("r", open)).toBe(false);
    const snapshot = await store.freeze("r");
    expect(await store.drop("r", { ...snapshot, version: snapshot.version + 1 })).toBe(false);
    expect(await store.drop("r", { ...snapshot, snapshotId: "other" })).toBe(false);
    expect(await store.drop("unknown", snapshot)).toBe(false);
    expect(await store.drop("r", snapshot)).toBe(true);
    expect(await store.drop("r", snapshot)).toBe(false);
  });
});

describe("writes", () => {
  test("O1 the same payload put again is a no-op, another one is a conflict", async () => {
    const { store } = temporaryStore();
    await store.open("r");
    await store.put(entryOf("r", "c1"));
    await store.put(entryOf("r", "c1", { created_at: 2000 }));
    const other = entryOf("r", "c1", { generation_token_ids: Int32Array.of(5) });
    expect(await codeOf(() => store.put(other))).toBe("RECORD_CONFLICT");
    const snapshot = await store.freeze("r");
    expect(snapshot.incompleteReasons).toEqual(["RECORD_CONFLICT"]);
    expect(snapshot.entries).toHaveLength(1);
    expect(snapshot.entries[0]?.created_at).toBe(1000.5);
  });

  test("O1 a repeated put leaves the version as it was", async () => {
    const { store, dir } = temporaryStore();
    await store.open("r");
    await store.put(entryOf("r", "c1"));
    const before = versionOf(dir, "r");
    await store.put(entryOf("r", "c1"));
    expect(versionOf(dir, "r")).toBe(before);
  });

  test("O2 a put after freeze masks the rollout and moves its version, so the stale drop fails", async () => {
    const { store } = temporaryStore();
    await store.open("r");
    const first = await store.freeze("r");
    expect(await codeOf(() => store.put(entryOf("r", "late")))).toBe("ROLLOUT_FROZEN");
    expect(await store.drop("r", first)).toBe(false);
    const second = await store.freeze("r");
    expect(second).toMatchObject({ incomplete: true, incompleteReasons: ["PUT_AFTER_FREEZE"] });
    expect(second.version).toBeGreaterThan(first.version);
    expect(second.snapshotId).toBe(first.snapshotId);
  });

  test("O2 a mark after freeze is kept and moves the version", async () => {
    const { store } = temporaryStore();
    await store.open("r");
    const first = await store.freeze("r");
    await store.markIncomplete("r", "c9");
    expect(await store.drop("r", first)).toBe(false);
    expect((await store.freeze("r")).incompleteReasons).toEqual(["LOST_CALL"]);
  });

  test("O3 the tombstone refuses every write and freeze", async () => {
    const { store } = temporaryStore();
    await store.open("r");
    await store.beginCall("r", "begun");
    await store.put(entryOf("r", "begun"));
    await store.drop("r", await store.freeze("r"));
    expect(await codeOf(() => store.put(entryOf("r", "late")))).toBe("ROLLOUT_RETIRED");
    expect(await codeOf(() => store.beginCall("r", "late"))).toBe("ROLLOUT_RETIRED");
    expect(await codeOf(() => store.endCall("r", "late", "failed"))).toBe("ROLLOUT_RETIRED");
    expect(await codeOf(() => store.markIncomplete("r"))).toBe("ROLLOUT_RETIRED");
    expect(await codeOf(() => store.freeze("r"))).toBe("ROLLOUT_RETIRED");
  });

  test("O4 what began before a reset is refused and leaves no trace", async () => {
    const { store } = temporaryStore();
    const { epoch } = await store.open("r");
    await store.beginCall("r", "old");
    await store.beginCall("r", "old-end");
    const next = await store.reset("r");
    expect(next.epoch).toBeGreaterThan(epoch);
    expect(await codeOf(() => store.put(entryOf("r", "old")))).toBe("STALE_EPOCH");
    expect(await codeOf(() => store.endCall("r", "old-end", "failed"))).toBe("STALE_EPOCH");
    expect(await store.freeze("r")).toMatchObject({ entries: [], incomplete: false });
  });

  test("O4 reset forgets records, intents and marks, and is refused while a snapshot waits", async () => {
    const { store } = temporaryStore();
    await store.open("r");
    await store.put(entryOf("r", "c1"));
    await store.beginCall("r", "c2");
    await store.endCall("r", "c3", "failed");
    await store.markIncomplete("r");
    await store.reset("r");
    const snapshot = await store.freeze("r");
    expect(snapshot).toMatchObject({ entries: [], incomplete: false, failedCalls: 0 });
    expect(await codeOf(() => store.reset("r"))).toBe("ROLLOUT_FROZEN");
    await store.drop("r", snapshot);
    await store.reset("r");
    expect(await store.freeze("r")).toMatchObject({ entries: [], incomplete: false });
  });

  test("O4 epochs come from one counter that survives a sweep of the tombstones", async () => {
    let now = 1_000_000;
    const { store } = temporaryStore({ now: () => now });
    const { epoch: first } = await store.open("r");
    const late = new StoreSink(store);
    await late.beginCall("r", "late");
    await store.drop("r", await store.freeze("r"));
    expect(await store.sweepRetired(10_000)).toBe(0);
    now += 10_001;
    expect(await store.sweepRetired(10_000)).toBe(1);

    expect(await codeOf(() => late.put(entryOf("r", "late")))).toBe("STALE_EPOCH");
    const { epoch: second } = await store.open("r");
    expect(second).toBeGreaterThan(first);
    expect((await store.open("other")).epoch).toBeGreaterThan(second);
  });

  test("O5 failed and aborted calls are counted once and are no hole", async () => {
    const { store } = temporaryStore();
    await store.open("r");
    for (const call of ["a", "b", "c"]) await store.beginCall("r", call);
    await store.endCall("r", "a", "failed");
    await store.endCall("r", "a", "failed");
    await store.endCall("r", "b", "aborted");
    await store.endCall("r", "c", "aborted");
    const snapshot = await store.freeze("r");
    expect(snapshot).toMatchObject({ failedCalls: 1, abortedCalls: 2, incomplete: false });
  });

  test("O5 tokens of a call that ended without any are a conflict", async () => {
    const { store } = temporaryStore();
    await store.open("r");
    await store.endCall("r", "c1", "failed");
    expect(await codeOf(() => store.put(entryOf("r", "c1")))).toBe("RECORD_CONFLICT");
    expect((await store.freeze("r")).incomplete).toBe(true);
  });

  test("O5 the end of a recorded call changes nothing", async () => {
    const { store } = temporaryStore();
    await store.open("r");
    await store.put(entryOf("r", "c1"));
    await store.endCall("r", "c1", "aborted");
    const snapshot = await store.freeze("r");
    expect(snapshot).toMatchObject({ abortedCalls: 0, incomplete: false });
    expect(snapshot.entries).toHaveLength(1);
  });

  test.each(["begin", "put", "end", "mark"])(
    "O6 %s on an unopened rollout makes it incomplete",
    async (kind) => {
      const { store } = temporaryStore();
      if (kind === "begin") await store.beginCall("r", "c1");
      if (kind === "end") await store.endCall("r", "c1", "failed");
      if (kind === "mark") await store.markIncomplete("r", "c1");
      if (kind !== "end" && kind !== "mark") await store.put(entryOf("r", "c1"));
      const snapshot = await store.freeze("r");
      expect(snapshot.incompleteReasons).toEqual([kind === "mark" ? "LOST_CALL" : "NOT_OPENED"]);
    },
  );

  test("an intent that was neither recorded nor ended is a hole", async () => {
    const { store } = temporaryStore();
    await store.open("r");
    await store.beginCall("r", "c1");
    const snapshot = await store.freeze("r");
    expect(snapshot).toMatchObject({ incomplete: true, incompleteReasons: ["DANGLING_INTENT"] });
    expect(await codeOf(() => store.endCall("r", "c1", "failed"))).toBe("ROLLOUT_FROZEN");
    expect((await store.freeze("r")).incompleteReasons).toEqual(["DANGLING_INTENT"]);
  });

  test("abandonOpen marks every open rollout and no other", async () => {
    const { store, dir } = temporaryStore();
    for (const id of ["a", "b", "c"]) await store.open(id);
    const frozen = await store.freeze("c");
    const second = temporaryStore({ dir });
    expect((await second.store.abandonOpen()).sort()).toEqual(["a", "b"]);
    expect((await store.freeze("a")).incompleteReasons).toEqual(["ABANDONED"]);
    expect(await store.freeze("c")).toEqual(frozen);
  });

  test("O9 what is given up is incomplete and takes no record, open, frozen or never seen", async () => {
    const { store } = temporaryStore();
    await store.open("open");
    await store.put(entryOf("open", "c1"));
    await store.open("frozen");
    const frozen = await store.freeze("frozen");
    for (const id of ["open", "frozen", "never"]) {
      await store.abandon(id);
      await store.abandon(id);
      expect((await store.peek(id))?.incompleteReasons).toEqual(["ABANDONED"]);
      expect(await codeOf(() => store.put(entryOf(id, "late")))).toBe("ROLLOUT_FROZEN");
    }
    expect((await store.freeze("open")).entries).toHaveLength(1);
    expect(await store.drop("frozen", frozen)).toBe(false);
    expect(await store.drop("open", await store.freeze("open"))).toBe(true);
    await store.abandon("open");
    expect(await codeOf(() => store.freeze("open"))).toBe("ROLLOUT_RETIRED");
  });
});

describe("the file", () => {
  test("N1 a flipped bit in a stored BLOB masks the rollout and keeps the record out", async () => {
    const { store, dir } = temporaryStore();
    await store.open("r");
    await store.put(entryOf("r", "good"));
    await store.put(entryOf("r", "bad", { prompt_token_ids: Int32Array.of(9, 9) }));
    edit(dir, "UPDATE entry SET prompt = x'0900000008000000' WHERE call_id = 'bad'");
    const snapshot = await store.freeze("r");
    expect(snapshot.incompleteReasons).toEqual(["DIGEST_MISMATCH"]);
    expect(snapshot.entries.map((entry) => entry.model_call_id)).toEqual(["good"]);
    expect(await codeOf(() => store.cumulativeIds("r", "bad"))).toBe("DIGEST_MISMATCH");
  });

  test.each(["UPDATE entry SET meta = 'not JSON'", "UPDATE entry SET call_id = 'another'"])(
    "N1 %s is a digest mismatch",
    async (sql) => {
      const { store, dir } = temporaryStore();
      await store.open("r");
      await store.put(entryOf("r", "c1"));
      edit(dir, sql);
      expect(await store.freeze("r")).toMatchObject({
        entries: [],
        incompleteReasons: ["DIGEST_MISMATCH"],
      });
    },
  );

  test("N1 a record that a newer build wrote is never decoded and masks", async () => {
    const { store } = temporaryStore();
    await store.open("r");
    const row = encodeEntry(entryOf("r", "c1"));
    const meta = row.meta.replace('"schema_version":1', '"schema_version":2');
    expect(await store.write({ kind: "put", epoch: null, row: { ...row, meta } })).toMatchObject({
      answer: "ok",
    });
    expect(await store.freeze("r")).toMatchObject({
      entries: [],
      incomplete: true,
      incompleteReasons: ["SCHEMA_TOO_NEW"],
    });
  });

  test.each(["removed", "replaced"])("T3 a put into a %s file is not acknowledged", async (how) => {
    const { store, dir } = temporaryStore();
    const path = join(dir, STORE_FILE_NAME);
    await store.open("r");
    await store.put(entryOf("r", "c1"));
    if (how === "replaced") {
      copyFileSync(path, `${path}.copy`);
      renameSync(`${path}.copy`, path);
    } else rmSync(path);
    expect(await codeOf(() => store.put(entryOf("r", "c2")))).toBe("STORE_CLOSED");
    expect(await codeOf(() => store.freeze("r"))).toBe("STORE_CLOSED");
    expect(await codeOf(() => store.candidates("r", { kind: "text", text: "" }))).toBe(
      "STORE_CLOSED",
    );
  });

  test("T3 a write-ahead log removed under the store is noticed", async () => {
    const { store, dir } = temporaryStore();
    rmSync(join(dir, `${STORE_FILE_NAME}-wal`));
    expect(await codeOf(() => store.open("r"))).toBe("STORE_CLOSED");
  });

  test("T4 a full store refuses with one clear error, loses nothing and works again when space returns", async () => {
    const { store } = temporaryStore({ maxSizeBytes: 400_000 });
    await store.open("full");
    const acknowledged: string[] = [];
    let failure: unknown;
    for (let i = 0; failure === undefined; i += 1) {
      const prompt = Int32Array.from({ length: 5000 }, (_, at) => at);
      try {
        await store.put(entryOf("full", `c${i}`, { prompt_token_ids: prompt }));
        acknowledged.push(`c${i}`);
      } catch (error) {
        failure = error;
      }
    }
    expect(failure).toMatchObject({ code: "STORE_FAILED", cause: { code: "SQLITE_FULL" } });
    expect(String(failure)).toContain("full (SQLITE_FULL)");
    const snapshot = await store.freeze("full");
    expect(snapshot.entries.map((entry) => entry.model_call_id)).toEqual(acknowledged);
    expect(acknowledged.length).toBeGreaterThan(5);
    await store.drop("full", snapshot);
    await store.open("next");
    await store.put(entryOf("next", "c1", { prompt_token_ids: new Int32Array(5000) }));
    expect((await store.freeze("next")).entries).toHaveLength(1);
  });

  test("T1 what was acknowledged is there for a second connection at once, and after a re-open", async () => {
    const { store, dir } = temporaryStore();
    await store.open("r");
    await store.put(entryOf("r", "c1"));
    const other = temporaryStore({ dir }).store;
    expect((await other.freeze("r")).entries).toHaveLength(1);
    await store.close();
    await other.close();
    const again = temporaryStore({ dir }).store;
    expect((await again.freeze("r")).entries).toHaveLength(1);
  });

  test("T2 a write waits for another writer's transaction instead of failing at once", async () => {
    const { store, dir } = temporaryStore();
    const other = new Database(join(dir, STORE_FILE_NAME));
    other.exec("BEGIN");
    other.prepare("SELECT count(*) FROM rollout").get();
    await store.open("r");
    await store.put(entryOf("r", "c1"));
    other.exec("COMMIT");
    other.close();
    expect((await store.freeze("r")).entries).toHaveLength(1);
  });

  test("N2 no read pins the write-ahead log", async () => {
    const { store, dir } = temporaryStore();
    await store.open("r");
    await store.put(entryOf("r", "c1"));
    await store.freeze("r");
    await store.cumulativeIds("r", "c1");
    await store.candidates("r", { kind: "text", text: "" });
    const other = new Database(join(dir, STORE_FILE_NAME), { timeout: 0 });
    expect(other.pragma("wal_checkpoint(TRUNCATE)")).toEqual([
      { busy: 0, log: 0, checkpointed: 0 },
    ]);
    other.close();
    expect(statSync(join(dir, `${STORE_FILE_NAME}-wal`)).size).toBe(0);
  });

  test("close is idempotent and a closed store says so", async () => {
    const { store } = temporaryStore();
    await store.close();
    await store.close();
    expect(await codeOf(() => store.open("r"))).toBe("STORE_CLOSED");
    expect(await codeOf(() => store.candidates("r", { kind: "text", text: "" }))).toBe(
      "STORE_CLOSED",
    );
  });

  test("Q1 a missing directory is created for its owner only", () => {
    const { dir } = temporaryStore({ dir: join(temporaryDirectory(), "a", "b") });
    expect(statSync(dir).mode & 0o777).toBe(0o700);
    expect(existsSync(join(dir, STORE_FILE_NAME))).toBe(true);
  });

  test("F1 a directory that cannot be one gives an error that names it", () => {
    const file = join(temporaryDirectory(), "file");
    writeFileSync(file, "");
    expect(() => new TokenCaptureStore({ dir: file })).toThrow(
      expect.objectContaining({ code: "STORE_FAILED", message: expect.stringContaining(file) }),
    );
  });
});

function edit(dir: string, sql: string): void {
  const connection = new Database(join(dir, STORE_FILE_NAME));
  connection.exec(sql);
  connection.close();
}

function versionOf(dir: string, rolloutId: string): unknown {
  const connection = new Database(join(dir, STORE_FILE_NAME));
  const select = connection.prepare("SELECT version FROM rollout WHERE rollout_id = ?").pluck();
  const version = select.get(rolloutId);
  connection.close();
  return version;
}
