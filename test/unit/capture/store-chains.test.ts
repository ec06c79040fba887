/** Deltas from the sink's memory to the file and back: whatever the calls look like, every record comes back whole. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { encodeDelta } from "../../../src/capture/entry-row.js";
import { StoreSink, type TokenEntry } from "../../../src/capture/index.js";
import { ChainCache, startOf } from "../../../src/capture/store-chains.js";
import { RowEncoder } from "../../../src/capture/store-encoder.js";
import { commonPrefixLength } from "../../../src/capture/token-views.js";
import { entryOf, temporaryStore } from "../../support/capture.js";

/** A call continues an earlier one up to a point and then differs; from 0 on it is a conversation of its own. */
const call = fc.record({
  after: fc.nat(),
  keep: fc.oneof(
    { weight: 3, arbitrary: fc.constant(1) },
    fc.double({ min: 0, max: 1, noNaN: true }),
  ),
  suffix: fc.array(fc.nat(3), { maxLength: 40 }),
  generation: fc.array(fc.nat(3), { maxLength: 10 }),
  sink: fc.nat(1),
  rollout: fc.constantFrom("r", "s"),
});

function entriesOf(calls: readonly (typeof call extends fc.Arbitrary<infer T> ? T : never)[]) {
  const entries: { entry: TokenEntry; sink: number }[] = [];
  for (const [index, { after, keep, suffix, generation, sink, rollout }] of calls.entries()) {
    const base = entries[after % (index + 1)]?.entry;
    const past = base === undefined ? [] : [...base.prompt_token_ids, ...base.generation_token_ids];
    const kept = past.slice(0, Math.round(keep * past.length));
    const entry = entryOf(rollout, `c${index}`, {
      prompt_token_ids: Int32Array.of(...kept, ...suffix),
      generation_token_ids: Int32Array.from(generation),
    });
    entries.push({ entry, sink });
  }
  return entries;
}

test("H1 E1 E2 any calls of two rollouts through two sinks come back as they were put", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(call, { maxLength: 25 }), async (calls) => {
      const { store } = temporaryStore();
      const sinks = [new StoreSink(store), new StoreSink(store)];
      await Promise.all(["r", "s"].map((id) => store.open(id)));
      const made = entriesOf(calls);
      await Promise.all(made.map(({ entry, sink }) => sinks[sink]?.put(entry)));
      for (const rollout of ["r", "s"]) {
        const snapshot = await store.freeze(rollout);
        expect(snapshot.incomplete).toBe(false);
        const expected = made.filter(({ entry }) => entry.rollout_id === rollout);
        expect(plain(snapshot.entries)).toEqual(plain(expected.map(({ entry }) => entry)));
      }
      for (const { entry } of made) {
        const ids = await store.cumulativeIds(entry.rollout_id, entry.model_call_id);
        expect([...ids]).toEqual([...entry.prompt_token_ids, ...entry.generation_token_ids]);
      }
      await store.close();
    }),
    { numRuns: 40 },
  );
});

function plain(entries: readonly TokenEntry[]) {
  const ids = ({ model_call_id, prompt_token_ids, generation_token_ids }: TokenEntry) =>
    [model_call_id, [...prompt_token_ids], [...generation_token_ids]] as const;
  return entries.map(ids).sort(([a], [b]) => (a < b ? -1 : 1));
}

test("H1 N1 prompts that were compared ahead, however their chains turned since, come back as they were put", async () => {
  const ids = fc.array(fc.nat(1), { maxLength: 4 });
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.tuple(fc.nat(3), ids), { minLength: 4, maxLength: 12 }),
      async (calls) => {
        const { store } = temporaryStore();
        await store.open("r");
        const made = calls.map(([cut, suffix], index) => {
          const prompt = Int32Array.of(...[1, 0, 1, 0, 1, 0, 1].slice(cut), ...suffix);
          return entryOf("r", `c${index}`, { prompt_token_ids: prompt });
        });
        // Every intent but the first is written before any record that could turn its chain is.
        const [first, ...rest] = made;
        if (first !== undefined) await store.put(first);
        for (const { rollout_id, model_call_id, prompt_token_ids } of rest)
          await store.beginCall(rollout_id, model_call_id, prompt_token_ids);
        for (const entry of rest) await store.put(entry);
        const { entries, incompleteReasons } = await store.freeze("r");
        expect(incompleteReasons).toEqual([]);
        expect(plain(entries)).toEqual(plain(made));
        await store.close();
      },
    ),
    { numRuns: 40 },
  );
});

test("N1 a comparison that was made ahead counts for that array and that state of the chain alone", () => {
  const encoder = new RowEncoder();
  const first = entryOf("r", "c1", { prompt_token_ids: Int32Array.of(1, 2, 3, 4) });
  encoder.encode(first);
  const prompt = Int32Array.of(1, 2, 3, 4, ...first.generation_token_ids, 9);
  const record = (id: string, ids: Int32Array) => entryOf("r", id, { prompt_token_ids: ids });
  const compared = encoder.compare("r", prompt);
  if (compared === undefined) throw new Error("the prompt continues c1");
  const shorter = { ...compared, match: { ...compared.match, prefixLength: 2 } };
  const { prefixLength } = compared.match;

  expect(encoder.encode(record("c2", prompt.slice()), shorter).prefixLength).toBe(prefixLength);
  const other = new RowEncoder();
  other.encode(first);
  expect(other.encode(record("c2", prompt), shorter).prefixLength).toBe(prefixLength);

  const again = encoder.compare("r", prompt);
  if (again === undefined) throw new Error("the prompt is that of c2");
  const known = { ...again, match: { ...again.match, prefixLength: prompt.length - 1 } };
  expect(encoder.encode(record("c3", prompt), known).prefixLength).toBe(prompt.length - 1);
  expect(encoder.encode(record("c4", prompt), known).prefixLength).toBe(prompt.length);
});

test("E2 E3 calls that extend each other are views on one shared buffer that holds the chain once", async () => {
  const { store } = temporaryStore();
  await store.open("r");
  let prompt = Int32Array.of(1, 2, 3);
  for (let i = 0; i < 50; i += 1) {
    const entry = entryOf("r", `c${i}`, { prompt_token_ids: prompt });
    await store.put(entry);
    prompt = Int32Array.of(...prompt, ...entry.generation_token_ids, i);
  }
  const { entries } = await store.freeze("r");
  const buffers = new Set(entries.map((entry) => entry.prompt_token_ids.buffer));
  expect(buffers.size).toBe(1);
  const [buffer] = buffers;
  expect(buffer).toBeInstanceOf(SharedArrayBuffer);
  expect(buffer?.byteLength).toBe(4 * (prompt.length - 1));
});

describe("the cache", () => {
  const encode = (cache: ChainCache, id: string, prompt: Int32Array, rollout = "r") => {
    const entry = entryOf(rollout, id, { prompt_token_ids: prompt });
    const match = cache.match(rollout, prompt);
    const { row, hash } = encodeDelta(entry, startOf(match));
    cache.note(entry, row.digest, hash, match);
    return row;
  };
  const ids = (length: number, step = 1) => Int32Array.from({ length }, (_, at) => at * step);

  test("a side conversation does not make the main one start anew", () => {
    const cache = new ChainCache(1 << 20);
    encode(cache, "main-1", ids(500));
    encode(cache, "side-1", Int32Array.of(...ids(20), ...ids(300, 5)));
    const main = encode(cache, "main-2", Int32Array.of(...ids(500), 7, 8, 9, 1));
    expect(main).toMatchObject({ base: { modelCallId: "main-1" }, prefixLength: 503 });
    const side = encode(cache, "side-2", Int32Array.of(...ids(20), ...ids(300, 5), 7, 8, 9));
    expect(side).toMatchObject({ base: { modelCallId: "side-1" }, prefixLength: 323 });
  });

  test("H2 H3 what was written to longest ago is forgotten first, the current one never", () => {
    const cache = new ChainCache(40_000);
    encode(cache, "a", ids(5000), "old");
    encode(cache, "b", ids(4000), "new");
    expect(cache.match("old", ids(10))).toMatchObject({ prefixLength: 10 });
    encode(cache, "c", ids(6000), "third");
    expect(cache.match("old", ids(10))).toBeUndefined();
    expect(cache.match("third", ids(10))).toMatchObject({ prefixLength: 10 });
    encode(cache, "d", ids(50_000), "huge");
    expect(cache.match("third", ids(10))).toBeUndefined();
    expect(encode(cache, "e", Int32Array.of(...ids(50_000), 7, 8, 9), "huge").prefixLength).toBe(
      50_003,
    );
  });

  test("H2 H3 a rollout that makes no more calls is forgotten with its bytes; what comes all the same is whole", () => {
    const cache = new ChainCache(40_000);
    for (let round = 0; round < 100; round++) {
      encode(cache, "a", ids(5000), "ended");
      cache.forget("ended");
    }
    cache.forget("never");
    encode(cache, "b", ids(4000), "running");
    encode(cache, "c", ids(4000), "other");
    expect(cache.match("running", ids(10))).toMatchObject({ prefixLength: 10 });
    expect(encode(cache, "d", ids(5000), "ended")).toMatchObject({ base: null, prefixLength: 0 });
  });
});

test("the first difference of two arrays is found wherever it lies", () => {
  fc.assert(
    fc.property(fc.nat(400), fc.nat(400), fc.nat(500), (length, other, at) => {
      const a = Int32Array.from({ length }, (_, index) => index);
      const b = Int32Array.from({ length: other }, (_, index) => (index === at ? -1 : index));
      expect(commonPrefixLength(a, b)).toBe(Math.min(length, other, at));
    }),
  );
});
