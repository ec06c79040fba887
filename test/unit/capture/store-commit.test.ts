import { join } from "node:path";
import Database from "better-sqlite3";
import { describe, expect, test } from "vitest";
import {
  BatchedWriter,
  type StoreOperation,
  type StoreOutcome,
  StoreSink,
  TokenCaptureStore,
} from "../../../src/capture/index.js";
import { GroupCommit } from "../../../src/capture/store-commit.js";
import { ByteGate } from "../../../src/capture/store-gate.js";
import { codeOf, entryOf, temporaryDirectory, temporaryStore } from "../../support/capture.js";

/** A database whose transactions are noted. */
function database(afterCommit: () => void = () => undefined) {
  const statements: string[] = [];
  const path = join(temporaryDirectory(), "x.db");
  const connection = new Database(path, { verbose: (sql) => statements.push(String(sql)) });
  connection.exec("CREATE TABLE t(x INTEGER PRIMARY KEY)");
  const add = connection.prepare("INSERT INTO t(x) VALUES (?)");
  const commits = new GroupCommit(connection, { afterCommit });
  const rows = () => connection.prepare("SELECT x FROM t").pluck().all();
  const transactions = () => statements.filter((sql) => sql === "COMMIT").length;
  return { commits, insert: (x: number) => commits.run(() => add.run(x)), rows, transactions };
}

describe("group commit", () => {
  test("M1 M2 all that wait share one transaction", async () => {
    const { insert, rows, transactions } = database();
    await Promise.all([1, 2, 3, 4].map(insert));
    expect(rows()).toEqual([1, 2, 3, 4]);
    expect(transactions()).toBe(1);
    await insert(5);
    expect(transactions()).toBe(2);
  });

  test("M3 one that fails takes nobody with it", async () => {
    const { insert, rows } = database();
    const settled = await Promise.allSettled([1, 2, 1, 3].map(insert));
    expect(settled.map(({ status }) => status)).toEqual([
      "fulfilled",
      "fulfilled",
      "rejected",
      "fulfilled",
    ]);
    expect(rows()).toEqual([1, 2, 3]);
  });

  test("M1 nothing is acknowledged that is not in the file that others see", async () => {
    let gone = false;
    const { insert } = database(() => {
      if (gone) throw new Error("the file was removed");
    });
    await insert(1);
    gone = true;
    const settled = await Promise.allSettled([2, 3].map(insert));
    expect(settled.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
    await expect(insert(4)).rejects.toThrow("the file was removed");
  });

  test("M4 operations are applied in their order", async () => {
    const { commits } = database();
    const seen: number[] = [];
    await Promise.all([1, 2, 3].map((n) => commits.run(() => seen.push(n))));
    expect(seen).toEqual([1, 2, 3]);
  });

  test("M3 while another process holds the lock every one of the group is refused, once", async () => {
    const path = join(temporaryDirectory(), "x.db");
    const connection = new Database(path, { timeout: 0 });
    connection.exec("CREATE TABLE t(x)");
    const other = new Database(path);
    other.exec("BEGIN IMMEDIATE");
    const commits = new GroupCommit(connection, { afterCommit: () => undefined });
    const settled = await Promise.all([1, 2].map((x) => codeOf(() => commits.run(() => x))));
    expect(settled).toEqual(["SQLITE_BUSY", "SQLITE_BUSY"]);
    other.exec("COMMIT");
    expect(await commits.run(() => 3)).toBe(3);
    connection.close();
    other.close();
  });

  test("what was given before close is committed", async () => {
    const { store, dir } = temporaryStore();
    const opened = store.open("r");
    const begun = store.write({ kind: "begin", rolloutId: "r", modelCallId: "c1" });
    await store.close();
    await Promise.all([opened, begun]);
    const again = temporaryStore({ dir }).store;
    expect((await again.freeze("r")).incompleteReasons).toEqual(["DANGLING_INTENT"]);
  });
});

describe("the gate", () => {
  test("G1 G2 those that wait go in their order; a large one passes alone", async () => {
    const gate = new ByteGate(10);
    const entered: number[] = [];
    const enter = (bytes: number) => gate.enter(bytes).then(() => entered.push(bytes));
    const all = Promise.all([enter(6), enter(50), enter(3), enter(1)]);
    await turns();
    expect(entered).toEqual([6]);
    gate.leave(6);
    await turns();
    expect(entered).toEqual([6, 50]);
    gate.leave(50);
    await all;
    expect(entered).toEqual([6, 50, 3, 1]);
  });
});

describe("pacing", () => {
  test("P1 T5 writes that arrive while many rollouts are frozen are not kept until the last", async () => {
    const { store } = temporaryStore();
    const sink = new StoreSink(store);
    const done: string[] = [];
    await store.open("busy");
    const freezes = Array.from({ length: 20 }, (_, n) => store.freeze(`f${n}`));
    const all = freezes.map((freeze) => freeze.then(() => done.push("freeze")));
    for (let call = 0; call < 3; call += 1) {
      await sink.put(entryOf("busy", `c${call}`));
      done.push("put");
    }
    await Promise.all(all);
    expect(done.lastIndexOf("put")).toBeLessThan(done.lastIndexOf("freeze"));
    expect(done.filter((what) => what === "freeze")).toHaveLength(20);
  });

  test("P2 T5 a consumer pauses while another connection writes, and only then", async () => {
    const { store: writer, dir } = temporaryStore();
    const pauses: number[] = [];
    const pause = async (ms: number) => {
      pauses.push(ms);
    };
    const consumer = new TokenCaptureStore({ dir, pause });
    await writer.open("a");
    const snapshot = await consumer.freeze("a");
    expect(pauses).toEqual([10]);
    await consumer.drop("a", snapshot);
    await consumer.freeze("b");
    expect(pauses).toEqual([10]);
    await writer.open("c");
    await consumer.freeze("c");
    expect(pauses).toEqual([10, 10]);
    await consumer.close();
  });
});

async function turns(): Promise<void> {
  for (let i = 0; i < 3; i += 1) await new Promise((resolve) => setImmediate(resolve));
}

describe("a batched writer", () => {
  const mark = (rolloutId: string): StoreOperation => ({ kind: "mark", rolloutId });

  test("B1 B2 what one turn brings goes as one message; one that fails fails alone", async () => {
    const sent: string[][] = [];
    const writer = new BatchedWriter({
      writeAll: async (operations) => {
        sent.push(
          operations.map((operation) => ("rolloutId" in operation ? operation.rolloutId : "")),
        );
        return operations.map(
          (_, index): StoreOutcome =>
            index === 1
              ? { answer: "failed", error: new Error("full") }
              : { answer: "ok", epoch: index },
        );
      },
    });
    const settled = await Promise.allSettled(["a", "b", "c"].map((id) => writer.write(mark(id))));
    expect(sent).toEqual([["a", "b", "c"]]);
    expect(settled).toMatchObject([
      { value: { epoch: 0 } },
      { reason: { message: "full" } },
      { value: { epoch: 2 } },
    ]);
  });

  test("B2 a message that fails or leaves something unanswered rejects, it never hangs", async () => {
    const dead = new BatchedWriter({ writeAll: () => Promise.reject(new Error("died")) });
    await expect(Promise.all([dead.write(mark("a"))])).rejects.toThrow("died");
    const forgetful = new BatchedWriter({ writeAll: async () => [] });
    await expect(forgetful.write(mark("a"))).rejects.toThrow("unanswered");
  });
});
