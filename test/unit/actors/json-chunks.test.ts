import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { jsonChunks } from "../../../src/actors/rollout-consumer/json-chunks.js";

/** Copies each piece: its memory is used again. */
function text(value: unknown): string {
  const chunks: Buffer[] = [];
  for (const chunk of jsonChunks(value)) chunks.push(Buffer.from(chunk));
  return Buffer.concat(chunks).toString();
}

function pieces(value: unknown): number[] {
  return [...jsonChunks(value)].map((chunk) => chunk.length);
}

describe("K1 pieces of JSON", () => {
  it("are what JSON.stringify gives", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        expect(text(value)).toBe(JSON.stringify(value));
      }),
      { numRuns: 2000 },
    );
    const odd = {
      absent: undefined,
      list: [undefined, () => 1, Number.NaN],
      date: new Date(0),
      own: { toJSON: () => "own" },
      "\ud800": "\ud800é\u2028",
      method: () => 1,
      empty: {},
    };
    expect(text(odd)).toBe(JSON.stringify(odd));
  });

  it("write typed arrays as arrays of numbers, of any length", () => {
    const ids = Int32Array.from({ length: 200_000 }, (_, i) => (i * 7919) % 2 ** 31);
    const edges = Int32Array.of(0, 9, 10, 99, 100, 2 ** 31 - 1, -1, -(2 ** 31));
    const logProbs = Float64Array.of(0, -0, -1e-7, -0.1, -1.25e-300, -745.5);
    const value = { ids, nested: [{ edges, logProbs }], none: new Int32Array(0) };
    const plain = JSON.parse(text(value)) as Record<string, unknown>;
    expect(plain).toEqual({
      ids: Array.from(ids),
      nested: [
        {
          edges: Array.from(edges),
          logProbs: [0, 0, -1e-7, -0.1, -1.25e-300, -745.5],
        },
      ],
      none: [],
    });
  });

  it("are small, whatever the value; a text longer than a piece is one of its own", () => {
    const ids = new Int32Array(1_000_000).fill(123_456);
    expect(Math.max(...pieces({ ids }))).toBeLessThanOrEqual(256 * 1024);
    const long = "x".repeat(300_000);
    expect(pieces({ a: 1, long })).toEqual([14, 300_002, 1]);
    expect(text([long, ids, long])).toBe(JSON.stringify([long, Array.from(ids), long]));
  });

  it.each([Number.NaN, Number.POSITIVE_INFINITY])("K2 refuse %s in a typed array", (value) => {
    expect(() => text({ logProbs: Float64Array.of(-1, value) })).toThrow("no JSON form");
  });
});
