import { describe, expect, test } from "vitest";
import {
  BatchedWriter,
  type StoreAnswer,
  type StoreOperation,
  StoreSink,
  type StoreSinkOptions,
} from "../../../src/capture/index.js";
import { codeOf, entryOf, temporaryStore } from "../../support/capture.js";

/** A writer that notes what it is asked and answers as told. */
function writerOf(
  answer: (operation: StoreOperation) => StoreAnswer | Promise<StoreAnswer>,
  options: StoreSinkOptions = {},
) {
  const operations: StoreOperation[] = [];
  const writer = {
    write: async (operation: StoreOperation) => {
      operations.push(structuredClone(operation));
      return await answer(operation);
    },
  };
  return { sink: new StoreSink(writer, options), operations };
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

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

test("K5 a record right behind its intent goes out with it, and is kept", async () => {
  const { store } = temporaryStore();
  const { epoch } = await store.open("r");
  const batches: string[][] = [];
  const target = {
    writeAll: (operations: readonly StoreOperation[]) => {
      batches.push(operations.map((operation) => operation.kind));
      return Promise.all(operations.map((operation) => store.write(operation)));
    },
  };
  const sink = new StoreSink(new BatchedWriter(target));
  const entry = entryOf("r", "a");
  await Promise.all([sink.beginCall("r", "a", entry.prompt_token_ids), sink.put(entry)]);
  expect(batches).toEqual([["begin", "put"]]);
  await sink.put(entry); // As when an answer was lost.
  expect(await store.freeze("r")).toMatchObject({ incomplete: false, entries: [{}] });
  expect(epoch).toBe(1);
});

test("K5 K1 a record right behind its intent is refused when a reset came between", async () => {
  const { store } = temporaryStore();
  await store.open("r");
  const sink = new StoreSink(store);
  const begun = sink.beginCall("r", "a");
  const reset = store.reset("r");
  const put = sink.put(entryOf("r", "a"));
  await begun;
  await reset;
  expect(await codeOf(() => put)).toBe("STALE_EPOCH");
  expect(await store.freeze("r")).toMatchObject({ incomplete: false, entries: [] });
});

test("K5 a record whose intent was not stored is refused", async () => {
  const { store } = temporaryStore();
  await store.open("r");
  const sink = new StoreSink({
    write: async (operation) => {
      if (operation.kind === "begin") throw new Error("the disk was full");
      return store.write(operation);
    },
  });
  const begun = sink.beginCall("r", "a").catch((error: unknown) => error);
  expect(await codeOf(() => sink.put(entryOf("r", "a")))).toBe("STALE_EPOCH");
  expect(await begun).toBeInstanceOf(Error);
});

test("K2 a failed write is reported once, not repeated, and may be sent again", async () => {
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
  const digests = operations.map((operation) => operation.kind === "put" && operation.row.digest);
  expect(digests[2]).toEqual(digests[1]);
});

describe("deltas", () => {
  const first = Int32Array.from({ length: 100 }, (_, at) => at);
  const generation = Int32Array.of(7, 8, 9);
  const longer = Int32Array.of(...first, ...generation, 50, 51);

  test("K3 a record goes as what follows an earlier one, and whole when the writer lacks that", async () => {
    let rebase = false;
    const { sink, operations } = writerOf((operation) => {
      const isDelta = operation.kind === "put" && operation.row.base !== null;
      return rebase && isDelta ? { answer: "rebase" } : { answer: "ok", epoch: 1 };
    });
    const rowOf = (at: number) => {
      const operation = operations[at];
      return operation?.kind === "put" ? operation.row : undefined;
    };
    await sink.put(entryOf("r", "a", { prompt_token_ids: first }));
    await sink.put(entryOf("r", "b", { prompt_token_ids: longer }));
    expect(rowOf(0)).toMatchObject({ base: null, prefixLength: 0 });
    expect(rowOf(1)).toMatchObject({
      base: { modelCallId: "a", digest: rowOf(0)?.digest },
      prefixLength: 103,
      prompt: new Uint8Array(Int32Array.of(50, 51).buffer),
    });
    rebase = true;
    const third = Int32Array.of(...longer, ...generation, 60);
    await sink.put(entryOf("r", "c", { prompt_token_ids: third }));
    expect(rowOf(2)).toMatchObject({ prefixLength: 108 });
    expect(rowOf(3)).toMatchObject({ base: null, digest: rowOf(2)?.digest });
    expect(new Int32Array(new Uint8Array(rowOf(3)!.prompt).buffer)).toEqual(third);
  });

  test("K3 over a store: a base that was lost or never stored costs bytes, not the record", async () => {
    const { store } = temporaryStore();
    await store.open("r");
    let lose = true;
    const sink = new StoreSink({
      write: async (operation) => {
        if (lose) throw new Error("the writer died");
        return store.write(operation);
      },
    });
    await expect(sink.put(entryOf("r", "a", { prompt_token_ids: first }))).rejects.toThrow();
    lose = false;
    await sink.put(entryOf("r", "b", { prompt_token_ids: longer }));
    await store.reset("r");
    const last = Int32Array.of(...longer, ...generation);
    await sink.put(entryOf("r", "c", { prompt_token_ids: last }));
    const { entries } = await store.freeze("r");
    expect(entries.map((entry) => entry.model_call_id)).toEqual(["c"]);
    expect(entries[0]?.prompt_token_ids).toEqual(last);
  });

  test("H4 a call is a candidate when it is acknowledged, while nothing follows it, and as the store knows it", async () => {
    const { store } = temporaryStore();
    await store.open("r");
    let release = () => {};
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    const sink = new StoreSink({
      write: async (operation) => {
        if (operation.kind === "put") await held;
        return store.write(operation);
      },
    });
    const lineage = { context_digest: "d", context_length: 1, fingerprint_version: 1 };
    const key = { kind: "tool_call_ids", ids: ["t1"] } as const;
    const put = sink.put(
      entryOf("r", "a", { prompt_token_ids: first, served_tool_call_ids: ["t1"], ...lineage }),
    );
    await turn();
    expect(sink.recentCandidates("r", key)).toBeUndefined();
    release();
    await put;
    expect(sink.recentCandidates("r", key)).toEqual(await store.candidates("r", key));
    expect(sink.recentCandidates("r", key)).toHaveLength(1);
    expect(sink.recentCandidates("s", key)).toBeUndefined();
    expect(sink.recentCandidates("r", { ...key, ids: ["t2"] })).toBeUndefined();
    expect(sink.recentCandidates("r", { kind: "text", text: "" })).toBeUndefined();
    await sink.put(entryOf("r", "b", { prompt_token_ids: longer, served_text: "x", ...lineage }));
    expect(sink.recentCandidates("r", key)).toBeUndefined();
    expect(sink.recentCandidates("r", { kind: "text", text: "x" })).toBeUndefined();
    sink.forget("r");
    expect(sink.recentIds("r", "b")).toBeUndefined();
  });

  test("recentIds knows the latest call of a chain, as a copy, and no other", async () => {
    const { sink } = writerOf(() => ({ answer: "ok", epoch: 1 }));
    await sink.put(entryOf("r", "a", { prompt_token_ids: first }));
    const ids = sink.recentIds("r", "a");
    expect(ids).toEqual(Int32Array.of(...first, ...generation));
    await sink.put(entryOf("r", "b", { prompt_token_ids: Int32Array.of(...first, 1) }));
    expect(ids).toEqual(Int32Array.of(...first, ...generation));
    expect(sink.recentIds("r", "a")).toBeUndefined();
    expect(sink.recentIds("s", "b")).toBeUndefined();
  });
});

test("K4 a put beyond the bound waits for an answer, and is refused when the sink closes", async () => {
  const answers: ((answer: StoreAnswer) => void)[] = [];
  const { sink, operations } = writerOf(
    () => new Promise<StoreAnswer>((resolve) => answers.push(resolve)),
    { maxQueuedBytes: 1000 },
  );
  const large = (id: string) =>
    entryOf("r", id, {
      prompt_token_ids: Int32Array.from({ length: 200 }, (_, at) => at ^ id.charCodeAt(0)),
    });
  const puts = ["a", "b", "c"].map((id) => sink.put(large(id)));
  await turn();
  expect(operations).toHaveLength(1);
  answers[0]?.({ answer: "ok", epoch: 1 });
  await puts[0];
  await turn();
  expect(operations).toHaveLength(2);
  const refused = codeOf(() => puts[2]);
  await sink.close();
  expect(await refused).toBe("STORE_CLOSED");
  answers[1]?.({ answer: "ok", epoch: 1 });
  await puts[1];
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
