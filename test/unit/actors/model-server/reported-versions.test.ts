/** Spans of weight versions, in every form that servers have. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  cutSpans,
  reportedVersions,
  versionOf,
} from "../../../../src/actors/model-server/engines/reported-versions.js";

const SPANS = [
  { version: 7, start: 0, end: 2 },
  { version: 8, start: 2, end: 3 },
];
const BOTH = { policyVersionStart: 7, policyVersionEnd: 8 };

test.each([
  [
    "SGLang's",
    [
      { version: "7", start: 0, end: 2 },
      { version: "8", start: 2, end: 3 },
    ],
  ],
  ["numbers", SPANS],
  [
    "only starts",
    [
      { weight_version: "7", start: 0 },
      { weight_version: 8, start: 2 },
    ],
  ],
])("%s spans", (_what, reported) => {
  expect(reportedVersions(reported, 3)).toEqual({ ...BOTH, policyVersionSpans: SPANS });
});

describe("W1. what is not told is left out", () => {
  test.each([
    ["no spans", undefined],
    ["null", null],
    ["none", []],
    ["no number", [{ version: "default", start: 0, end: 3 }]],
  ])("%s: nothing is known", (_what, reported) => {
    expect(reportedVersions(reported, 3)).toEqual({});
  });

  test.each([
    ["versions alone", [7, "8"]],
    [
      "a gap",
      [
        { version: 7, start: 0, end: 1 },
        { version: 8, start: 2, end: 3 },
      ],
    ],
    [
      "an overlap",
      [
        { version: 7, start: 0, end: 2 },
        { version: 8, start: 1, end: 3 },
      ],
    ],
    [
      "a missing end",
      [
        { version: 7, start: 0, end: 1 },
        { version: 8, start: 1, end: 2 },
      ],
    ],
    [
      "too many tokens",
      [
        { version: 7, start: 0, end: 2 },
        { version: 8, start: 2, end: 4 },
      ],
    ],
    [
      "a late start",
      [
        { version: 7, start: 1, end: 2 },
        { version: 8, start: 2, end: 3 },
      ],
    ],
    [
      "a fraction",
      [
        { version: 7, start: 0, end: 1.5 },
        { version: 8, start: 1.5, end: 3 },
      ],
    ],
    [
      "an empty one",
      [
        { version: 7, start: 0, end: 0 },
        { version: 8, start: 0, end: 3 },
      ],
    ],
    ["one without a number", [...SPANS.slice(0, 2), { version: "x", start: 3, end: 3 }]],
  ])("%s: the versions are known, the spans are not", (_what, reported) => {
    expect(reportedVersions(reported, 3)).toEqual(BOTH);
  });

  test("whatever is reported, spans cover all tokens in order or are absent", () => {
    const entry = fc.record(
      { version: fc.oneof(fc.nat(9), fc.string()), start: fc.nat(5), end: fc.nat(5) },
      { requiredKeys: [] },
    );
    fc.assert(
      fc.property(fc.oneof(fc.array(entry), fc.anything()), fc.nat(5), (reported, generated) => {
        const { policyVersionSpans: spans } = reportedVersions(reported, generated);
        if (spans === undefined) return;
        const covered = spans.flatMap(({ start, end }) =>
          Array.from({ length: end - start }, (_, at) => start + at),
        );
        expect(covered).toEqual(Array.from({ length: generated }, (_, at) => at));
      }),
    );
  });
});

test("an answer that is cut keeps the spans of what is left", () => {
  expect(cutSpans(SPANS, 3)).toEqual(SPANS);
  expect(cutSpans(SPANS, 2)).toEqual([{ version: 7, start: 0, end: 2 }]);
  expect(cutSpans(SPANS, 1)).toEqual([{ version: 7, start: 0, end: 1 }]);
});

test("a version is a whole number, or the text of one", () => {
  expect([12, "12", "default", 1.5, null, "1".repeat(16)].map(versionOf)).toEqual([
    12,
    12,
    undefined,
    undefined,
    undefined,
    undefined,
  ]);
});
