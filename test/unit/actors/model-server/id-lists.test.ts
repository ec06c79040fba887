/** Long lists of ids in JSON, read and written as bytes: the same as `JSON` would. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  BodyWithIds,
  liftIds,
} from "../../../../src/actors/model-server/engines/upstream/id-lists.js";
import { parseReply } from "../../../../src/actors/model-server/engines/upstream/json.js";

const MAX_ID = 2 ** 31 - 1;
/** Ids of every length, and those around a change of length. */
const anyId = fc.oneof(
  fc.integer({ min: 0, max: MAX_ID }),
  fc.integer({ min: 0, max: 9 }).map((digits) => 10 ** digits),
  fc.integer({ min: 1, max: 9 }).map((digits) => 10 ** digits - 1),
  fc.integer({ min: 0, max: 200_000 }),
);
const anyIds = fc.array(anyId, { maxLength: 40 });

const plain = (value: unknown): unknown =>
  JSON.parse(
    JSON.stringify(value, (_key, item) => (item instanceof Int32Array ? [...item] : item)),
  );

test("a body with ids is the JSON of the object", () => {
  fc.assert(
    fc.property(anyIds, fc.dictionary(fc.string(), fc.jsonValue()), (ids, rest) => {
      const body = new BodyWithIds('né"', Int32Array.from(ids), { ...rest, n: 1 });
      expect(JSON.parse(String(body.bytes))).toEqual(plain({ 'né"': ids, ...rest, n: 1 }));
      expect(String(body.list)).toBe(JSON.stringify(ids));
    }),
  );
});

describe("D1 J3. a reply is what JSON.parse reads", () => {
  const place = fc.constantFrom("root", "choice", "list", "elsewhere");
  const filler = fc.oneof(
    fc.jsonValue(),
    fc.constantFrom<unknown>(
      '"prompt_token_ids":[1,2]',
      '{"prompt_token_ids":[3]}',
      "\u0000lifted",
    ),
  );

  test("wherever the ids stand, however they are written, whatever stands beside them", () => {
    fc.assert(
      fc.property(place, anyIds, filler, fc.constantFrom(0, 1, 2), (where, ids, beside, indent) => {
        const holder = { beside, prompt_token_ids: ids, after: beside };
        const reply = {
          root: holder,
          choice: { id: beside, choices: [holder] },
          list: [holder],
          elsewhere: { usage: holder },
        }[where];
        const text = JSON.stringify(reply, null, indent);
        expect(plain(parseReply(Buffer.from(text), "x"))).toEqual(JSON.parse(text));
      }),
    );
  });

  test.each([
    ["a fraction", "[1.5]"],
    ["a negative one", "[-1]"],
    ["beyond int32", `[${MAX_ID + 1}]`],
    ["an exponent", "[1e3]"],
    ["a string", '["1"]'],
    ["null", "null"],
    ["nested", "[[1]]"],
  ])("%s is left to JSON.parse", (_what, list) => {
    const text = `{"prompt_token_ids": ${list}}`;
    expect(liftIds(Buffer.from(text), "prompt_token_ids")).toBeNull();
    expect(parseReply(Buffer.from(text), "x")).toEqual(JSON.parse(text));
  });

  test.each(["[1,]", "[,1]", "[01]", "[1 2]", "[1", "[", "[1,,2]"])("%s is no JSON", (list) => {
    expect(() => parseReply(Buffer.from(`{"prompt_token_ids":${list}}`), "x")).toThrow(
      "is no JSON",
    );
  });

  test("the list that was sent is not read again; one that differs anywhere is", () => {
    fc.assert(
      fc.property(anyIds, anyIds, (ids, other) => {
        const sent = new BodyWithIds("prompt", Int32Array.from(ids), {});
        const read = (list: readonly number[]) => {
          const text = JSON.stringify({ choices: [{ prompt_token_ids: list }] });
          const reply = parseReply(Buffer.from(text), "x", sent);
          return (reply as { choices: [{ prompt_token_ids: Int32Array }] }).choices[0];
        };
        expect(read(ids).prompt_token_ids).toBe(sent.ids);
        for (const list of [other, [...ids, 7], ids.slice(1), ids.map((id) => id + 1)])
          expect(Array.from(read(list).prompt_token_ids)).toEqual(list);
      }),
    );
  });

  test("NaN beside the ids is still read as a number that no check lets pass", () => {
    const text = '{"logprob": NaN, "prompt_token_ids": [1, 2]}';
    expect(parseReply(Buffer.from(text), "x")).toEqual({
      logprob: Number.NaN,
      prompt_token_ids: Int32Array.of(1, 2),
    });
  });
});
