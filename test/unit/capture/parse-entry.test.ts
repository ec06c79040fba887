import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  checkGeneration,
  entryDigest,
  parseTokenEntry,
  tokenEntryToJson,
} from "../../../src/capture/index.js";
import { codeOf, entryOf } from "../../support/capture.js";

const json = (fields: Record<string, unknown> = {}) => ({
  ...tokenEntryToJson(entryOf("r", "c1")),
  ...fields,
});

describe("C1 values are checked before they are converted", () => {
  test.each([
    1.5,
    -1,
    2 ** 31,
    Number.NaN,
    Number.POSITIVE_INFINITY,
    "3",
    null,
    undefined,
    3n,
    true,
  ])("C1 %s is no token id", (id) => {
    const prompt = [1, id, 2];
    expect(() => parseTokenEntry(json({ prompt_token_ids: prompt }))).toThrow(
      expect.objectContaining({
        code: "RECORD_INVALID",
        message: expect.stringContaining("prompt_token_ids[1]"),
      }),
    );
  });

  test("C1 the vocabulary bounds ids, the last one allowed", () => {
    const at = (id: number) => () =>
      parseTokenEntry(json({ prompt_token_ids: [id] }), { vocabularySize: 100 });
    expect(at(99)).not.toThrow();
    expect(at(100)).toThrow("prompt_token_ids[0] is 100; allowed: an integer in [0, 100).");
    expect(() => parseTokenEntry(json({ prompt_token_ids: [2 ** 31 - 1] }))).not.toThrow();
  });

  test.each([
    Number.NaN,
    Number.NEGATIVE_INFINITY,
    Number.POSITIVE_INFINITY,
    1e-5,
    -1000,
    -9999,
    "x",
    null,
  ])("C1 %s is no log probability", (value) => {
    expect(() => checkGeneration([1, 2], [-0.5, value])).toThrow(
      expect.objectContaining({
        code: "RECORD_INVALID",
        message: expect.stringContaining("generation_log_probs[1]"),
      }),
    );
  });

  test("C1 log probabilities at the bounds pass as they are", () => {
    const { logProbs } = checkGeneration([1, 2, 3], [1e-6, -999.999, -0]);
    expect(logProbs).toEqual(Float64Array.of(1e-6, -999.999, -0));
  });

  test("C1 ids and log probabilities are as many", () => {
    expect(() => checkGeneration([1, 2], [-0.5])).toThrow("1 values for 2 generated tokens");
  });

  test("C1 typed arrays of other types are checked and converted, Int32Array and Float64Array kept", () => {
    const ids = Int32Array.of(1, 2);
    const logProbs = Float64Array.of(-1, -2);
    const kept = checkGeneration(ids, logProbs);
    expect(kept.tokenIds).toBe(ids);
    expect(kept.logProbs).toBe(logProbs);
    expect(checkGeneration(Uint32Array.of(1, 2), Float32Array.of(-1, -2))).toEqual({
      tokenIds: ids,
      logProbs,
    });
    expect(() => checkGeneration(Uint32Array.of(2 ** 31), [-1])).toThrow("generation_token_ids[0]");
    expect(() => checkGeneration(BigInt64Array.of(1n), [-1])).toThrow("generation_token_ids[0]");
    expect(() => checkGeneration(new DataView(new ArrayBuffer(8)), [])).toThrow("array of numbers");
    expect(() => checkGeneration("12", [-1, -1])).toThrow("generation_token_ids must be an array");
  });
});

describe("C2 newer records", () => {
  test("C2 a newer record is refused by name although nothing else of it can be read", async () => {
    expect(await codeOf(() => parseTokenEntry({ schema_version: 2 }))).toBe("SCHEMA_TOO_NEW");
  });

  test("C2 a record without the field is version 1, a broken version is invalid", async () => {
    const { schema_version: _version, ...rest } = json();
    expect(parseTokenEntry(rest).schema_version).toBe(1);
    for (const version of [0, "2", 0.5, -1]) {
      expect(await codeOf(() => parseTokenEntry(json({ schema_version: version })))).toBe(
        "RECORD_INVALID",
      );
    }
  });
});

describe("C4 the carrier", () => {
  const carrying = { prompt_token_ids: [1, 2, 3, 4], generation_token_ids: [7, 8, 9] };

  test("C4 two items with token arrays are refused", async () => {
    const output_items = [
      { type: "message", ...carrying },
      { type: "function_call", ...carrying },
    ];
    expect(await codeOf(() => parseTokenEntry(json({ output_items })))).toBe(
      "MULTIPLE_TOKEN_CARRIERS",
    );
  });

  test("C4 the one carrier is found and its copy of the arrays left out", () => {
    const output_items = [{ type: "reasoning" }, { type: "message", id: "m", ...carrying }];
    const entry = parseTokenEntry(json({ output_items, token_item_index: null }));
    expect(entry.token_item_index).toBe(1);
    expect(entry.output_items).toEqual([{ type: "reasoning" }, { type: "message", id: "m" }]);
  });

  test.each([
    ["another item is named", { token_item_index: 0 }, [{ type: "a" }, { type: "b", ...carrying }]],
    ["the index is past the items", { token_item_index: 2 }, [{ type: "a" }]],
    ["its ids differ", {}, [{ type: "a", ...carrying, generation_token_ids: [7, 8, 10] }]],
    ["its ids are fewer", {}, [{ type: "a", ...carrying, generation_token_ids: [7, 8] }]],
    ["its ids are no array", {}, [{ type: "a", generation_token_ids: 7 }]],
  ])("C4 a carrier is invalid when %s", async (_why, fields, output_items) => {
    expect(await codeOf(() => parseTokenEntry(json({ ...fields, output_items })))).toBe(
      "RECORD_INVALID",
    );
  });
});

describe("fields", () => {
  test.each([
    ["no object", 7],
    ["an empty id", json({ model_call_id: "" })],
    ["an id that is not Unicode", json({ rollout_id: "\ud800" })],
    ["a time that is not finite", json({ created_at: Number.NaN })],
    ...[
      [{ version: 1, start: 0, end: 1 }],
      [{ version: 1, start: 1, end: 2 }],
      [
        { version: 1, start: 0, end: 2 },
        { version: 2, start: 1, end: 2 },
      ],
      [],
    ].map((spans): [string, unknown] => [
      `version spans ${JSON.stringify(spans)} of other than all tokens`,
      json({ policy_version_spans: spans }),
    ]),
    ["a policy version that is text", json({ policy_version_start: "3" })],
    ["an unknown resolution", json({ parent_resolution: "MAYBE" })],
    ["a cumulative length that is wrong", json({ cum_len: 8 })],
    ["served ids that differ", json({ served_tool_call_ids: ["a"], served_tool_calls: [] })],
  ])("%s is invalid", async (_what, value) => {
    expect(await codeOf(() => parseTokenEntry(value))).toBe("RECORD_INVALID");
  });

  test("null stands for an absent field, as Python writers put it", () => {
    const entry = parseTokenEntry(
      json({
        policy_version_start: null,
        digest: null,
        sampling: { temperature: 1, top_k: null },
        output_items: [{ type: "function_call", id: null, name: "f" }],
      }),
    );
    expect(entry).not.toHaveProperty("policy_version_start");
    expect(entry).not.toHaveProperty("digest");
    expect(entry.sampling).toEqual({ temperature: 1 });
    expect(entry.output_items).toEqual([{ type: "function_call", name: "f" }]);
  });

  test("a message names the call and the field", () => {
    expect(() => parseTokenEntry(json({ model: 7 }))).toThrow(/Record of call "c1": model: /);
  });
});

test("a record survives its JSON form, digest and all", () => {
  fc.assert(
    fc.property(
      fc.array(fc.nat(2 ** 31 - 1), { maxLength: 20 }),
      fc.array(fc.tuple(fc.nat(2 ** 31 - 1), fc.double({ min: -999, max: 0, noNaN: true })), {
        maxLength: 20,
      }),
      fc.jsonValue(),
      (prompt, generation, routed) => {
        const entry = entryOf("r", "c", {
          prompt_token_ids: Int32Array.from(prompt),
          generation_token_ids: Int32Array.from(generation, ([id]) => id),
          generation_log_probs: Float64Array.from(generation, ([, logProb]) => logProb),
          ...(routed === null ? {} : { routed_experts: routed }),
        });
        const text = JSON.stringify(tokenEntryToJson(entry));
        const back = parseTokenEntry(JSON.parse(text));
        // JSON has no negative zero, and says so for no log probability but that one.
        const same = entry.generation_log_probs.every((value) => !Object.is(value, -0));
        if (same) expect(entryDigest(back)).toBe(entryDigest(entry));
        expect(back.prompt_token_ids).toEqual(entry.prompt_token_ids);
        expect(back.generation_token_ids).toEqual(entry.generation_token_ids);
      },
    ),
  );
});
