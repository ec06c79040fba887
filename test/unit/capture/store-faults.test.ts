/** What disks, machines and late writers do to a store: each ends masked or refused, never as a wrong token. */
import { copyFileSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  finalizeRolloutTokenCapture,
  STORE_FILE_NAME,
  StoreSink,
  type TokenCaptureSnapshot,
  TokenCaptureStore,
  type TokenEntry,
} from "../../../src/capture/index.js";
import { codeOf, entryOf, temporaryDirectory, temporaryStore } from "../../support/capture.js";

/** Calls of one conversation, each the whole of the one before and one token more. */
function conversation(rolloutId: string, calls: number): TokenEntry[] {
  const entries: TokenEntry[] = [];
  let prompt = Int32Array.of(1, 2, 3, 4);
  for (let call = 0; call < calls; call += 1) {
    const parent = entries.at(-1)?.model_call_id;
    const entry = entryOf(rolloutId, `c${call}`, {
      prompt_token_ids: prompt,
      generation_token_ids: Int32Array.of(100 + call, 101 + call),
      parent_resolution: parent === undefined ? "ROOT" : "RESOLVED",
      ...(parent === undefined ? {} : { parent_call_id: parent }),
    });
    entries.push(entry);
    prompt = Int32Array.of(...prompt, ...entry.generation_token_ids, call);
  }
  return entries;
}

/** What a server that served these calls counted. */
function ledgerOf(entries: readonly TokenEntry[], { failed = 0, aborted = 0 } = {}) {
  const recordedCallIds = entries.map((entry) => entry.model_call_id);
  return {
    started: entries.length + failed + aborted,
    recordedCallIds,
    failed,
    aborted,
    captureLost: 0,
  };
}

async function finalize(store: TokenCaptureStore, entries: readonly TokenEntry[], counts = {}) {
  const row = { _ng_rollout_id: "r", response: { output: [] as unknown[] } };
  const built = await finalizeRolloutTokenCapture(row, store, {
    ledgers: [ledgerOf(entries, counts)],
  });
  return { built, row };
}

const LATE = { timeout: 60_000 };

describe("late writers", () => {
  test("O3 after the drop a late write is refused and counted, and brings nothing back", async () => {
    const { store, dir } = temporaryStore();
    await store.open("r");
    const sink = new StoreSink(store);
    await sink.beginCall("r", "late");
    await store.markIncomplete("r");
    await store.drop("r", await store.freeze("r"));
    expect(await codeOf(() => sink.put(entryOf("r", "late")))).toBe("ROLLOUT_RETIRED");
    expect(await codeOf(() => sink.beginCall("r", "later"))).toBe("ROLLOUT_RETIRED");
    expect(await codeOf(() => sink.markIncomplete("r"))).toBe("ROLLOUT_RETIRED");
    expect(query(dir, "SELECT late_writes FROM rollout")).toBe(3);
    expect(query(dir, "SELECT count(*) FROM entry")).toBe(0);
    expect(query(dir, "SELECT count(*) FROM lost")).toBe(0);
  });

  test("O4 a write of an old epoch is refused and counted, and the new attempt is whole", async () => {
    const { store, dir } = temporaryStore();
    await store.open("r");
    const old = new StoreSink(store);
    await old.beginCall("r", "old");
    await store.reset("r");
    const entries = conversation("r", 3);
    for (const entry of entries) await store.put(entry);
    expect(await codeOf(() => old.put(entryOf("r", "old")))).toBe("STALE_EPOCH");
    expect(query(dir, "SELECT late_writes FROM rollout")).toBe(1);
    expect((await finalize(store, entries)).built).toMatchObject({ masked: false });
  });

  test("O5 a storm of failed and aborted calls masks nothing", async () => {
    const { store } = temporaryStore();
    await store.open("r");
    const entries = conversation("r", 3);
    for (const [index, entry] of entries.entries()) {
      for (let n = 0; n < 20; n += 1) {
        await store.beginCall("r", `f${index}-${n}`);
        await store.endCall("r", `f${index}-${n}`, n % 2 === 0 ? "failed" : "aborted");
      }
      await store.beginCall("r", entry.model_call_id);
      await store.put(entry);
    }
    const { built } = await finalize(store, entries, { failed: 30, aborted: 30 });
    expect(built.masked).toBe(false);
    expect(built.metrics).toMatchObject({ failed_calls: 30, aborted_calls: 30, n_calls: 3 });
  });

  test("a rejected retry leaves what was recorded, byte for byte (https://github.com/radixark/miles/pull/3311)", async () => {
    const { store, dir } = temporaryStore();
    await store.open("r");
    const entries = conversation("r", 2);
    for (const entry of entries) await store.put(entry);
    const rows = () =>
      queryAll(dir, "SELECT digest, prompt, gen, logp, meta FROM entry ORDER BY id");
    const before = rows();
    await store.beginCall("r", "retry");
    await store.endCall("r", "retry", "failed");
    const invalid = {
      ...entries[1],
      model_call_id: "retry",
      generation_log_probs: Float64Array.of(-9999, -1),
    };
    expect(await codeOf(() => store.put(invalid as TokenEntry))).toBe("RECORD_INVALID");
    expect(rows()).toEqual(before);
    expect((await finalize(store, entries, { failed: 1 })).built.masked).toBe(false);
  });

  test("a harness that starts anew after a crash never mixes attempts (https://github.com/PrimeIntellect-ai/verifiers/pull/1739)", async () => {
    const { store } = temporaryStore();
    await store.open("r");
    for (const entry of conversation("r", 3)) await store.put(entry);
    await store.reset("r");
    const second = conversation("r", 2).map((entry) => ({
      ...entry,
      model_call_id: `again-${entry.model_call_id}`,
      ...(entry.parent_call_id === undefined
        ? {}
        : { parent_call_id: `again-${entry.parent_call_id}` }),
    }));
    for (const entry of second) await store.put(entry);
    const { built } = await finalize(store, second);
    expect(built).toMatchObject({ masked: false, metrics: { n_calls: 2 } });
  });

  test.each([null, Number.NaN, -9999, undefined])(
    "a log probability %s is refused and never stored as a number (https://github.com/verl-project/uni-agent/pull/92)",
    async (value) => {
      const { store } = temporaryStore();
      await store.open("r");
      await store.beginCall("r", "c0");
      const logProbs = [-0.5, value] as unknown as Float64Array;
      const entry = entryOf("r", "c0", {
        generation_token_ids: Int32Array.of(1, 2),
        generation_log_probs: logProbs,
      });
      expect(await codeOf(() => store.put(entry))).toBe("RECORD_INVALID");
      expect(await store.freeze("r")).toMatchObject({
        entries: [],
        incompleteReasons: ["DANGLING_INTENT"],
      });
    },
  );
});

describe("the disk", () => {
  test("V1 T6 a write that finds no room marks its rollout from the reserve", async () => {
    const { store, dir } = temporaryStore({ maxSizeBytes: 300_000 });
    const reserve = join(dir, "capture.reserve");
    expect(statSync(reserve).blocks * 512).toBeGreaterThanOrEqual(1024 * 1024); // V2
    await store.open("r");
    await store.open("other");
    const large = Int32Array.from({ length: 200_000 }, (_, at) => at);
    for (const id of ["r", "other"]) await store.beginCall(id, "c");
    const put = () => store.put(entryOf("r", "c", { prompt_token_ids: large }));
    expect(await codeOf(put)).toBe("STORE_FAILED");
    await store.put(entryOf("other", "c"));
    expect(await store.freeze("r")).toMatchObject({
      entries: [],
      incompleteReasons: ["DANGLING_INTENT", "LOST_CALL"],
    });
    expect(await store.freeze("other")).toMatchObject({ incomplete: false });
    await store.open("next");
    expect(statSync(reserve).size).toBe(1024 * 1024); // V2
  });

  test("T6 O9 what is given up is marked from the reserve where there is no room", async () => {
    const { store, dir } = temporaryStore({ maxSizeBytes: 300_000 });
    const ids = Array.from({ length: 300 }, (_, index) => `given-up-${index}`);
    await Promise.all(ids.map((id) => store.open(id)));
    const room = Int32Array.from({ length: 500 }, (_, at) => at);
    const fill = (call: number) =>
      store.put(entryOf("full", `c${call}`, { prompt_token_ids: room }));
    await store.open("full");
    for (let call = 0; (await codeOf(() => fill(call))) !== "STORE_FAILED"; call++);
    await codeOf(() => store.open("fills the reserve again"));
    expect(statSync(join(dir, "capture.reserve")).size).toBe(1024 * 1024);
    await Promise.all(ids.map((id) => store.abandon(id)));
    for (const id of ids) expect((await store.peek(id))?.incompleteReasons).toEqual(["ABANDONED"]);
  });

  test("a lost write-ahead log masks what it held", async () => {
    const { store, dir } = temporaryStore();
    await store.open("r");
    const entries = conversation("r", 6);
    for (const entry of entries.slice(0, 3)) await store.put(entry);
    const connection = new Database(join(dir, STORE_FILE_NAME));
    connection.pragma("wal_checkpoint(PASSIVE)");
    for (const entry of entries.slice(3)) await store.put(entry);
    await store.freeze("r");
    await store.freeze("unseen");
    const copy = copyOf(dir);
    connection.close();
    rmSync(join(copy, `${STORE_FILE_NAME}-wal`));

    const { store: after } = temporaryStore({ dir: copy });
    await after.abandonOpen();
    const { built } = await finalize(after, entries);
    expect(built.masked).toBe(true);
    expect(built.snapshot?.entries).toHaveLength(3);
    const codes = built.metrics?.mask_reasons.map((reason) => reason.code);
    expect(codes).toContain("LEDGER_MISMATCH");
    expect(built.snapshot?.incompleteReasons).toContain("ABANDONED");
  });

  test(
    "N1 any flipped bit anywhere ends as a refusal, as a mask, or as the same tokens",
    LATE,
    async () => {
      const { store, dir } = temporaryStore();
      await store.open("r");
      const entries = conversation("r", 12);
      for (const entry of entries) await store.put(entry);
      const original = plain(await store.freeze("r"));
      await store.close();
      const bytes = readFileSync(join(dir, STORE_FILE_NAME));
      const seen = { refused: 0, masked: 0, same: 0 };
      await fc.assert(
        fc.asyncProperty(fc.nat(bytes.length * 8 - 1), async (bit) => {
          const damaged = Buffer.from(bytes);
          damaged[bit >> 3] = (damaged[bit >> 3] ?? 0) ^ (1 << (bit & 7));
          const outcome = await readBack(damaged, entries, original);
          seen[outcome] += 1;
        }),
        { numRuns: 120 },
      );
      expect(seen.masked).toBeGreaterThan(0);
      expect(seen.same).toBeGreaterThan(0);
    },
  );

  test(
    "T4 a schema with a damaged column name is refused, masks, or is not needed",
    LATE,
    async () => {
      const { store, dir } = temporaryStore();
      await store.open("r");
      const entries = conversation("r", 3);
      for (const entry of entries) await store.put(entry);
      const original = plain(await store.freeze("r"));
      await store.close();
      const bytes = readFileSync(join(dir, STORE_FILE_NAME));
      const columns = /(?<=[(\s])[a-z_]+(?= +(?:INTEGER|TEXT|BLOB|REAL)\b)/g;
      const seen: string[] = [];
      for (const { index } of bytes.toString("latin1").matchAll(columns)) {
        const damaged = Buffer.from(bytes);
        damaged[index] = (damaged[index] ?? 0) ^ 1;
        seen.push(await readBack(damaged, entries, original));
      }
      expect(seen.length).toBeGreaterThan(30);
      expect(seen.filter((outcome) => outcome === "refused").length).toBeGreaterThan(20);
    },
  );

  test("a file cut short is refused, masks, or lost nothing that was used", LATE, async () => {
    const { store, dir } = temporaryStore();
    await store.open("r");
    const entries = conversation("r", 12);
    for (const entry of entries) await store.put(entry);
    const original = plain(await store.freeze("r"));
    await store.close();
    const bytes = readFileSync(join(dir, STORE_FILE_NAME));
    const seen: string[] = [];
    for (let at = 1; at < bytes.length; at += 4096)
      seen.push(await readBack(bytes.subarray(0, at), entries, original));
    expect(seen[0]).not.toBe("same");
    expect(seen.filter((outcome) => outcome !== "same").length).toBeGreaterThan(seen.length / 2);
  });
});

/** Opens a damaged file as a restarted run would. */
async function readBack(bytes: Uint8Array, entries: readonly TokenEntry[], original: unknown) {
  const dir = temporaryDirectory();
  writeFileSync(join(dir, STORE_FILE_NAME), bytes);
  let store: TokenCaptureStore | undefined;
  try {
    store = new TokenCaptureStore({ dir });
    const { built } = await finalize(store, entries);
    if (built.masked) return "masked";
    expect(plain(built.snapshot)).toEqual(original);
    return "same";
  } catch (error) {
    expect(error).toMatchObject({ name: "CaptureError" });
    return "refused";
  } finally {
    await store?.close();
    rmSync(dir, { recursive: true });
  }
}

function plain(snapshot: TokenCaptureSnapshot | null) {
  return snapshot?.entries.map((entry) => ({
    id: entry.model_call_id,
    prompt: [...entry.prompt_token_ids],
    generation: [...entry.generation_token_ids],
    logProbs: [...entry.generation_log_probs],
    digest: entry.digest,
  }));
}

function copyOf(dir: string): string {
  const to = join(temporaryDirectory(), "copy");
  mkdirSync(to);
  for (const suffix of ["", "-wal"])
    copyFileSync(join(dir, STORE_FILE_NAME + suffix), join(to, STORE_FILE_NAME + suffix));
  return to;
}

function query(dir: string, sql: string): unknown {
  const connection = new Database(join(dir, STORE_FILE_NAME));
  const value = connection.prepare(sql).pluck().get();
  connection.close();
  return value;
}

function queryAll(dir: string, sql: string): unknown[] {
  const connection = new Database(join(dir, STORE_FILE_NAME));
  const rows = connection.prepare(sql).all();
  connection.close();
  return rows;
}
