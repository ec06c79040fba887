import { expect, test } from "vitest";
import { PassBook } from "../../../src/actors/rollout-consumer/pass-book.js";

const slot = (pass: number, taskIndex: number, rolloutIndex = 0) => ({
  pass,
  taskIndex,
  rolloutIndex,
});

test("B1. a pass that is settled whole is known by its number only", () => {
  const book = new PassBook();
  book.begin({ pass: 1, digest: "d", slots: 2 });
  book.settle(slot(1, 0));
  book.settle(slot(1, 0));
  expect(book.open()).toEqual([{ pass: 1, digest: "d", slots: 2, settled: [slot(1, 0)] }]);
  expect(book.isSettled(slot(1, 0))).toBe(true);
  expect(book.isSettled(slot(1, 1))).toBe(false);
  book.settle(slot(1, 1));
  expect(book.open()).toEqual([]);
  expect(book.isSettled(slot(1, 1))).toBe(true);
  expect(book.isSettled(slot(2, 0))).toBe(false);
  expect(book.last).toBe(1);
});

test("B2. of many passes that nobody ends, the newest are kept", () => {
  const book = new PassBook();
  for (let pass = 1; pass <= 100; pass++) book.begin({ pass, digest: "d", slots: 1 });
  expect(book.open().map(({ pass }) => pass)).toEqual(
    Array.from({ length: 16 }, (_, index) => 85 + index),
  );
  expect(book.isSettled(slot(84, 0))).toBe(true);
  book.leave(90);
  expect(book.isSettled(slot(90, 0))).toBe(true);
});
