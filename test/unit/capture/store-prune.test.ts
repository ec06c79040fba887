import { statSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { STORE_FILE_NAME, type TokenCaptureStore } from "../../../src/capture/index.js";
import { codeOf, entryOf, temporaryStore } from "../../support/capture.js";

async function frozen(store: TokenCaptureStore, id: string): Promise<void> {
  await store.open(id);
  const prompt = Int32Array.from({ length: 10_000 }, (_, at) => at);
  await store.put(entryOf(id, "c", { prompt_token_ids: prompt }));
  await store.markIncomplete(id);
  await store.freeze(id);
}

const idsOf = (pruned: readonly { rolloutId: string }[]) => pruned.map((one) => one.rolloutId);

test("the oldest go first, the newest stay as far as they fit", async () => {
  let now = 1000;
  const { store } = temporaryStore({ now: () => now });
  for (const id of ["a", "b", "c", "d"]) {
    now += 1000;
    await frozen(store, id);
  }
  await store.open("open");
  const pruned = await store.pruneFrozen({ olderThanMs: 0, keepBytes: 90_000 });
  expect(idsOf(pruned)).toEqual(["b", "a"]);
  expect(pruned[0]?.bytes).toBeGreaterThan(40_000);
  expect(await codeOf(() => store.freeze("a"))).toBe("ROLLOUT_RETIRED");
  expect((await store.freeze("c")).entries).toHaveLength(1);
  expect(await codeOf(() => store.put(entryOf("a", "late")))).toBe("ROLLOUT_RETIRED");
  expect((await store.freeze("open")).incomplete).toBe(false);
});

test("age, and the ids that are asked for or left out, decide", async () => {
  let now = 1000;
  const { store } = temporaryStore({ now: () => now });
  for (const id of ["a", "b", "c"]) await frozen(store, id);
  now += 5000;
  await frozen(store, "young");
  expect(idsOf(await store.pruneFrozen({ olderThanMs: 10_000 }))).toEqual([]);
  expect(idsOf(await store.pruneFrozen({ olderThanMs: 4000, only: ["a", "young"] }))).toEqual([
    "a",
  ]);
  expect(idsOf(await store.pruneFrozen({ olderThanMs: 4000, except: ["b"] }))).toEqual(["c"]);
});

test("compact gives the room back", async () => {
  const { store, dir } = temporaryStore();
  for (let n = 0; n < 20; n += 1) await frozen(store, `r${n}`);
  await store.pruneFrozen({ olderThanMs: 0 });
  await store.compact();
  expect(statSync(join(dir, STORE_FILE_NAME)).size).toBeLessThan(200_000);
  await frozen(store, "next");
  expect((await store.freeze("next")).entries).toHaveLength(1);
});
