import { describe, expect, test } from "vitest";
import { cumulativeDigest, type LineageKey, type TokenEntry } from "../../../src/capture/index.js";
import { codeOf, entryOf, temporaryStore } from "../../support/capture.js";

const context = { context_digest: "ctx", context_length: 3, fingerprint_version: 1 };
const tools = (...ids: string[]): Partial<TokenEntry> => ({
  ...context,
  served_text: "",
  served_tool_call_ids: ids,
  served_tool_calls: ids.map((id) => ({ id, name: "Read", arguments: { path: "a" } })),
});
const text = (served_text: string): Partial<TokenEntry> => ({
  ...context,
  served_text,
  served_tool_calls: [],
});

async function storeWith(calls: Record<string, Partial<TokenEntry>>) {
  const { store } = temporaryStore();
  await store.open("r");
  for (const [id, fields] of Object.entries(calls)) await store.put(entryOf("r", id, fields));
  const find = async (key: LineageKey) =>
    (await store.candidates("r", key)).map((node) => node.modelCallId).sort();
  return { store, find };
}

describe("candidates", () => {
  test("are found by the ordered list of all served tool-call ids", async () => {
    const { find } = await storeWith({
      one: tools("a"),
      both: tools("a", "b"),
      swapped: tools("b", "a"),
    });
    const ids = (...wanted: string[]) => find({ kind: "tool_call_ids", ids: wanted });
    expect(await ids("a")).toEqual(["one"]);
    expect(await ids("a", "b")).toEqual(["both"]);
    expect(await ids("b", "a")).toEqual(["swapped"]);
    expect(await ids("b")).toEqual([]);
    expect(await ids("a,b")).toEqual([]);
    expect(await ids()).toEqual([]);
  });

  test("are found by the exact text of turns without tool calls, every match", async () => {
    const { find } = await storeWith({
      x: text("done"),
      y: text("done"),
      z: text("done "),
      t: tools("a"),
    });
    expect(await find({ kind: "text", text: "done" })).toEqual(["x", "y"]);
    expect(await find({ kind: "text", text: "done " })).toEqual(["z"]);
    expect(await find({ kind: "text", text: "" })).toEqual([]);
    expect(await find({ kind: "tool_call_ids", ids: ["done"] })).toEqual([]);
  });

  test("are those of that rollout, from any sink, also while it is frozen, and gone with it", async () => {
    const { store, find } = await storeWith({ x: text("done") });
    const key = { kind: "text", text: "done" } as const;
    expect(await store.candidates("other", key)).toEqual([]);
    const snapshot = await store.freeze("r");
    expect(await find(key)).toEqual(["x"]);
    await store.drop("r", snapshot);
    expect(await find(key)).toEqual([]);
    expect(await codeOf(() => store.cumulativeIds("r", "x"))).toBe("CALL_NOT_FOUND");
  });

  test("a record without a context has no lineage", async () => {
    const { find } = await storeWith({ x: { served_text: "done" } });
    expect(await find({ kind: "text", text: "done" })).toEqual([]);
  });

  test("a node says what was served and under which context, and digests its tokens", async () => {
    const { store } = await storeWith({ x: { ...tools("a"), finish_reason: "tool_calls" } });
    const nodes = await store.candidates("r", { kind: "tool_call_ids", ids: ["a"] });
    const { prompt_token_ids: prompt, generation_token_ids: generation } = entryOf("r", "x");
    expect(nodes).toEqual([
      {
        modelCallId: "x",
        model: "policy",
        contextDigest: "ctx",
        contextLength: 3,
        fingerprintVersion: 1,
        servedText: "",
        servedToolCalls: [{ id: "a", name: "Read", arguments: { path: "a" } }],
        finishReason: "tool_calls",
        cumLen: 7,
        cumulativeDigest: cumulativeDigest(prompt, generation),
      },
    ]);
  });
});

test("cumulativeIds is the prompt and what was generated", async () => {
  const { store } = await storeWith({ x: text("done") });
  expect(await store.cumulativeIds("r", "x")).toEqual(Int32Array.of(1, 2, 3, 4, 7, 8, 9));
  expect(await codeOf(() => store.cumulativeIds("r", "y"))).toBe("CALL_NOT_FOUND");
  expect(await codeOf(() => store.cumulativeIds("s", "x"))).toBe("CALL_NOT_FOUND");
});
