import { expect, test } from "vitest";
import { type StoreAnswer, type StoreOperation, StoreSink } from "../../../src/capture/index.js";
import { codeOf, entryOf, temporaryStore } from "../../support/capture.js";

/** A writer that notes what it is asked and answers as told. */
function writerOf(answer: () => StoreAnswer | Promise<StoreAnswer>) {
  const operations: StoreOperation[] = [];
  const writer = {
    write: async (operation: StoreOperation) => {
      operations.push(structuredClone(operation));
      return await answer();
    },
  };
  return { sink: new StoreSink(writer), operations };
}

test("K1 a call writes with the epoch it began in, one never begun with none", async () => {
  const { sink, operations } = writerOf(() => ({ answer: "ok", epoch: 41 }));
  await sink.beginCall("r", "a");
  await sink.put(entryOf("r", "a"));
  await sink.beginCall("r", "b");
  await sink.endCall("r", "b", "aborted");
  await sink.put(entryOf("r", "c"));
  expect(operations.map((o) => [o.kind, "epoch" in o ? o.epoch : "-"])).toEqual([
    ["begin", "-"],
    ["put", 41],
    ["begin", "-"],
    ["end", 41],
    ["put", null],
  ]);
});

test("K2 a failed write is reported once, not repeated, and may be sent again as it was", async () => {
  let fail = true;
  const { sink, operations } = writerOf(() => {
    if (fail) throw new Error("the writer died");
    return { answer: "ok", epoch: 7 };
  });
  fail = false;
  await sink.beginCall("r", "a");
  fail = true;
  await expect(sink.put(entryOf("r", "a"))).rejects.toThrow("the writer died");
  expect(operations).toHaveLength(2);
  fail = false;
  await sink.put(entryOf("r", "a"));
  expect(operations[2]).toEqual(operations[1]);
});

test.each([
  ["conflict", "RECORD_CONFLICT"],
  ["frozen", "ROLLOUT_FROZEN"],
  ["retired", "ROLLOUT_RETIRED"],
  ["stale_epoch", "STALE_EPOCH"],
] as const)("the answer %s is the error %s", async (answer, code) => {
  const { sink } = writerOf(() => ({ answer }));
  expect(await codeOf(() => sink.put(entryOf("r", "a")))).toBe(code);
  expect(await codeOf(() => sink.markIncomplete("r"))).toBe(code);
});

test("an invalid record never reaches the writer", async () => {
  const { sink, operations } = writerOf(() => ({ answer: "ok", epoch: 1 }));
  const entry = entryOf("r", "a", { generation_log_probs: Float64Array.of(-1, Number.NaN, -1) });
  expect(await codeOf(() => sink.put(entry))).toBe("RECORD_INVALID");
  expect(await codeOf(() => sink.put(entryOf("r", "a", { schema_version: 2 })))).toBe(
    "SCHEMA_TOO_NEW",
  );
  expect(operations).toEqual([]);
});

test("two sinks of one store: a record that crossed threads by structured clone is stored", async () => {
  const { store } = temporaryStore();
  await store.open("r");
  const write = async (operation: StoreOperation) =>
    structuredClone(await store.write(structuredClone(operation)));
  const sinks = [new StoreSink({ write }), new StoreSink({ write })];
  await Promise.all(sinks.map((sink, i) => sink.beginCall("r", `c${i}`)));
  await Promise.all(sinks.map((sink, i) => sink.put(entryOf("r", `c${i}`))));
  const snapshot = structuredClone(await store.freeze("r"));
  expect(snapshot.incomplete).toBe(false);
  expect(snapshot.entries.map((entry) => entry.model_call_id).sort()).toEqual(["c0", "c1"]);
});

test("close is idempotent, and a closed sink writes nothing more", async () => {
  const { sink, operations } = writerOf(() => ({ answer: "ok", epoch: 1 }));
  await sink.close();
  await sink.close();
  expect(await codeOf(() => sink.put(entryOf("r", "a")))).toBe("STORE_CLOSED");
  expect(operations).toEqual([]);
});
