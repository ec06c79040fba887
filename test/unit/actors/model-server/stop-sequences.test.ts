import fc from "fast-check";
import { expect, test } from "vitest";
import type { TokenGeneration } from "../../../../src/actors/model-server/engines/engine.js";
import { stopAt } from "../../../../src/actors/model-server/stop-sequences.js";

/** One id is one to three letters. */
const PIECES = ["a", "b", "ab", "ba", "abb", "\n"];
const decode = (ids: ArrayLike<number>) => Array.from(ids, (id) => PIECES[id] ?? "").join("");

const generation = (tokenIds: number[]): TokenGeneration => ({
  tokenIds,
  logProbs: tokenIds.map((_, index) => -index),
  logprobsMode: "processed",
  finishReason: "length",
  policyVersionStart: 1,
  policyVersionEnd: 1,
});

test("E1. the shortest beginning of the ids that spells a stop sequence is kept, and nothing is changed in it", () => {
  fc.assert(
    fc.property(
      fc.array(fc.nat(PIECES.length - 1), { maxLength: 30 }),
      fc.array(fc.string({ unit: fc.constantFrom("a", "b"), minLength: 1, maxLength: 5 }), {
        maxLength: 3,
      }),
      (ids, stops) => {
        const { generation: kept, stopSequence } = stopAt(generation(ids), stops, decode);
        const spells = (length: number) =>
          stops.some((stop) => decode(ids.slice(0, length)).includes(stop));
        const shortest = ids.findIndex((_, index) => spells(index + 1));
        if (shortest < 0) {
          expect(stopSequence).toBeNull();
          expect(kept).toEqual(generation(ids));
          return;
        }
        expect(stops).toContain(stopSequence);
        expect(kept).toEqual({
          ...generation(ids.slice(0, shortest + 1)),
          finishReason: "stop",
        });
      },
    ),
  );
});
