import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  copyInt32,
  decodeLogProbs,
  encodeLogProbs,
  int32Bytes,
} from "../../../src/capture/blob.js";
import { canonicalJson } from "../../../src/capture/canonical-json.js";
import { cumulativeDigest, entryDigest, entryMeta } from "../../../src/capture/digest.js";
import { type EntryRow, encodeEntry, type StoredEntry } from "../../../src/capture/entry-row.js";
import type { TokenEntry } from "../../../src/capture/index.js";
import { materialise } from "../../../src/capture/store-materialise.js";
import { codeOf, entryOf } from "../../support/capture.js";

const stored = (row: EntryRow): StoredEntry => ({
  id: 1,
  call_id: row.modelCallId,
  digest: row.digest,
  cum_digest: row.cumulativeDigest,
  created_at: row.createdAt,
  base_id: null,
  prefix_len: row.prefixLength,
  n_prompt: row.promptLength,
  n_gen: row.generationLength,
  lp_width: row.logProbWidth,
  meta: row.meta,
  prompt: Buffer.from(row.prompt),
  gen: Buffer.from(row.generation),
  logp: Buffer.from(row.logProbs),
});

/** The one record, or what it throws. */
function decodeEntry(row: StoredEntry): TokenEntry {
  const [made] = materialise([row]);
  if (made?.entry === undefined) throw made?.error;
  return made.entry;
}

const logProb = fc.oneof(
  fc.double({ min: -999, max: 0, noNaN: true }),
  fc.float({ min: -999, max: 0, noNaN: true }),
);
const anyEntry: fc.Arbitrary<TokenEntry> = fc
  .record({
    prompt: fc.array(fc.nat(2 ** 31 - 1)),
    generation: fc.array(fc.tuple(fc.nat(2 ** 31 - 1), logProb)),
    item: fc.dictionary(fc.string(), fc.jsonValue()),
    text: fc.string({ unit: "binary" }),
    finish: fc.option(fc.string(), { nil: undefined }),
  })
  .map(({ prompt, generation, item, text, finish }) =>
    entryOf("r", "c", {
      prompt_token_ids: Int32Array.from(prompt),
      generation_token_ids: Int32Array.from(generation, ([id]) => id),
      generation_log_probs: Float64Array.from(generation, ([, value]) => value),
      output_items: [{ ...item, type: "message" }],
      served_text: text,
      ...(finish === undefined ? {} : { finish_reason: finish }),
    }),
  );

describe("S1 encoding", () => {
  test("S1 any record decodes to itself, bit for bit", () => {
    fc.assert(
      fc.property(anyEntry, (entry) => {
        const back = decodeEntry(stored(encodeEntry(entry)));
        const { digest, ...rest } = back;
        expect(digest).toBe(entryDigest(entry));
        expect(canonicalJson(tokens(rest))).toBe(canonicalJson(tokens(entry)));
        expect(Buffer.from(back.generation_log_probs.buffer)).toEqual(
          Buffer.from(entry.generation_log_probs.buffer),
        );
      }),
    );
  });

  test("S1 any flipped bit of a stored array is found", () => {
    fc.assert(
      fc.property(
        anyEntry,
        fc.constantFrom("prompt" as const, "gen" as const, "logp" as const),
        fc.nat(),
        (entry, column, bit) => {
          const row = stored(encodeEntry(entry));
          const bytes = row[column];
          fc.pre(bytes.length > 0);
          const at = bit % (bytes.length * 8);
          bytes[at >> 3] = (bytes[at >> 3] ?? 0) ^ (1 << (at & 7));
          expect(() => decodeEntry(row)).toThrow(
            expect.objectContaining({ code: "DIGEST_MISMATCH" }),
          );
        },
      ),
    );
  });

  test("S2 a newer stored record is not decoded", async () => {
    const row = stored(encodeEntry(entryOf("r", "c")));
    const newer = { ...row, meta: '{"schema_version":2}' };
    expect(await codeOf(() => decodeEntry(newer))).toBe("SCHEMA_TOO_NEW");
  });

  test("a record that brings a digest which is not its own is refused", async () => {
    const entry = entryOf("r", "c");
    expect(() => encodeEntry({ ...entry, digest: entryDigest(entry) })).not.toThrow();
    expect(await codeOf(() => encodeEntry({ ...entry, digest: "0".repeat(64) }))).toBe(
      "DIGEST_MISMATCH",
    );
  });

  test("log probabilities take 4 bytes only when every one is lossless", () => {
    const narrow = Float64Array.of(Math.fround(-0.1), -0, -2.5);
    expect(encodeLogProbs(narrow)).toMatchObject({ width: 4 });
    expect(encodeLogProbs(Float64Array.of(-0.1, -2.5))).toMatchObject({ width: 8 });
    for (const values of [narrow, Float64Array.of(-0.1, -2.5), new Float64Array()]) {
      const { width, bytes } = encodeLogProbs(values);
      expect(bytes.length).toBe(width * values.length);
      expect(decodeLogProbs(bytes, width)).toEqual(values);
    }
  });

  test("a part of a larger buffer is copied, so that a thread is not sent the whole", () => {
    const part = new Int32Array(1000).subarray(10, 12);
    expect(int32Bytes(part).buffer.byteLength).toBe(8);
    const whole = Int32Array.of(1, 2);
    expect(int32Bytes(whole).buffer).toBe(whole.buffer);
    const bytes = Buffer.from([0, 0, ...int32Bytes(whole)]).subarray(2);
    const target = new Int32Array(3);
    copyInt32(bytes, target, 1);
    expect(target).toEqual(Int32Array.of(0, 1, 2));
  });
});

describe("digests", () => {
  test("C3 D1 key order, created_at and the digest itself do not count, everything else does", () => {
    const entry = entryOf("r", "c", { finish_reason: "stop", purpose: "main" });
    const reversed = Object.fromEntries(Object.entries(entry).reverse()) as unknown as TokenEntry;
    expect(entryDigest({ ...reversed, created_at: 1, digest: "x" })).toBe(entryDigest(entry));
    for (const change of [
      { finish_reason: "length" },
      { prompt_token_ids: Int32Array.of(1, 2, 3, 5) },
      { generation_token_ids: Int32Array.of(7, 8, 10) },
      { generation_log_probs: Float64Array.of(-0.1, -0.1, -0.2) },
      { model_call_id: "d" },
    ]) {
      expect(entryDigest({ ...entry, ...change })).not.toBe(entryDigest(entry));
    }
  });

  test("D1 moving a token between prompt and generation changes the digest, not the cumulative one", () => {
    const a = entryOf("r", "c", { prompt_token_ids: Int32Array.of(1, 2) });
    const b = {
      ...a,
      prompt_token_ids: Int32Array.of(1, 2, 7),
      generation_token_ids: Int32Array.of(8, 9),
    };
    expect(entryDigest(a)).not.toBe(entryDigest(b));
    expect(cumulativeDigest(a.prompt_token_ids, a.generation_token_ids)).toBe(
      cumulativeDigest(b.prompt_token_ids, b.generation_token_ids),
    );
  });

  // Computed outside of this code base, from the description in digest.ts.
  test("D1 pinned: a digest that changes would mask every stored rollout", () => {
    expect(entryDigest(entryOf("r", "c"))).toBe(
      "1c9136e57803e4daf8c44eddf2df14208a9882b0ddd931b95bbb6e5a8f15d279",
    );
  });

  test("D2 the digest does not depend on how log probabilities are stored", () => {
    const narrow = encodeEntry(
      entryOf("r", "c", { generation_log_probs: Float64Array.of(-1, -2, -3) }),
    );
    expect(narrow.logProbWidth).toBe(4);
    expect(() => decodeEntry(stored(narrow))).not.toThrow();
  });

  test.each([
    Number.NaN,
    Number.POSITIVE_INFINITY,
    () => 1,
    1n,
    new Date(0),
    new Map(),
    Symbol("s"),
    [undefined],
    new Array(1),
  ])("D3 %s has no canonical form", async (value) => {
    expect(await codeOf(() => entryMeta(entryOf("r", "c", { routed_experts: { value } })))).toBe(
      "RECORD_INVALID",
    );
  });

  test("D3 nesting is bounded", async () => {
    let deep: unknown = 1;
    for (let i = 0; i < 100_000; i += 1) deep = [deep];
    expect(await codeOf(() => entryMeta(entryOf("r", "c", { routed_experts: deep })))).toBe(
      "RECORD_INVALID",
    );
  });
});

function tokens(entry: Omit<TokenEntry, "digest">) {
  return {
    ...entry,
    prompt_token_ids: Array.from(entry.prompt_token_ids),
    generation_token_ids: Array.from(entry.generation_token_ids),
    generation_log_probs: [],
  };
}
