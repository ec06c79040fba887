import { expect, it } from "vitest";
import { rolloutTree } from "../../../src/capture/index.js";
import { call, continues, root } from "./entries.js";

it("tells lengths and what became of each call, a chain in one piece", () => {
  const entries = [
    call("q", [9], [], root),
    call("d", [1, 2, 3, 5, 6], [7], continues("c")),
    call("c", [1, 2, 3], [5], { ...continues("a"), finish_reason: "stop" }),
    call("b", [1, 2, 3], [4], continues("a")),
    call("a", [1], [2], root),
    call("x", [8], [9], { parent_resolution: "UNRESOLVED", parent_resolution_reason: "WHY" }),
  ];
  const { calls, build } = rolloutTree(entries, { rolloutId: "r" });
  expect(build.masked).toBe(true);
  const shown = calls.map(({ callId, parentId, newTokens, state }) => [
    callId,
    parentId,
    newTokens,
    state,
  ]);
  expect(shown).toEqual([
    ["q", null, 1, "empty"],
    ["a", null, 1, "shown"],
    ["c", "a", 1, "shown"],
    ["d", "c", 1, "shown"],
    ["b", "a", 1, "superseded"],
    ["x", null, 1, "chain"],
  ]);
  expect(calls[2]).toMatchObject({ promptTokens: 3, generatedTokens: 1, finishReason: "stop" });
  expect(calls[5]).toMatchObject({ boundary: "WHY" });
});

it("orders a chain of 20,000 calls without recursion", () => {
  const ids = Int32Array.from({ length: 40_001 }, (_, at) => at % 977);
  const entries = Array.from({ length: 20_000 }, (_, at) =>
    call(
      `c${String(at).padStart(6, "0")}`,
      ids.subarray(0, 2 * at + 1),
      ids.subarray(2 * at + 1, 2 * at + 2),
      at === 0 ? root : continues(`c${String(at - 1).padStart(6, "0")}`),
    ),
  );
  const { calls } = rolloutTree(entries, { rolloutId: "r" });
  expect(calls.at(-1)?.callId).toBe("c019999");
});
