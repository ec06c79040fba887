/** The checks of a lineage: any worker finds what any worker recorded, as soon as it is recorded. */
import { canonicalJson } from "./canonical-json.js";
import {
  type ConformanceBench,
  type ConformanceCheck,
  expect,
  expectRefused,
  open,
  record,
  recordOf,
} from "./conformance-records.js";
import type { LineageKey } from "./contracts.js";
import { cumulativeDigest } from "./digest.js";
import type { TokenEntry } from "./records.js";

const toolCalls = (...ids: string[]): Partial<TokenEntry> => ({
  served_text: "",
  served_tool_call_ids: ids,
  served_tool_calls: ids.map((id) => ({ id, name: "Read", arguments: { path: "a", n: [1.5] } })),
});

async function found(bench: ConformanceBench, key: LineageKey, rolloutId = bench.rolloutId) {
  const nodes = await (await bench.lineage()).candidates(rolloutId, key);
  return nodes.map((node) => node.modelCallId).sort();
}

function expectFound(actual: readonly string[], expected: readonly string[], key: string): void {
  const text = (ids: readonly string[]) => ids.join(", ") || "none";
  expect(
    text(actual) === text([...expected].sort()),
    `${key} finds ${text(actual)}; recorded is ${text(expected)}`,
  );
}

export const lineageChecks: readonly ConformanceCheck[] = [
  {
    name: "lineage.visible-at-once",
    run: async (bench) => {
      await open(bench);
      const before = await bench.lineage();
      const key = { kind: "text", text: "answer of c1" } as const;
      expect(
        (await before.candidates(bench.rolloutId, key)).length === 0,
        "an unknown text is found",
      );
      await record(await bench.sink(), recordOf(bench.rolloutId, "c1"));
      for (const lineage of [before, await bench.lineage()]) {
        const [node] = await lineage.candidates(bench.rolloutId, key);
        expect(node?.modelCallId === "c1", "a record that was acknowledged is not found");
      }
    },
  },
  {
    name: "lineage.tool-call-ids",
    run: async (bench) => {
      await open(bench);
      const sink = await bench.sink();
      const calls = { one: ["a"], both: ["a", "b"], swapped: ["b", "a"] };
      for (const [id, ids] of Object.entries(calls))
        await record(sink, recordOf(bench.rolloutId, id, toolCalls(...ids)));
      for (const [id, ids] of Object.entries(calls))
        expectFound(await found(bench, { kind: "tool_call_ids", ids }), [id], `[${ids.join()}]`);
      expectFound(await found(bench, { kind: "tool_call_ids", ids: ["b"] }), [], "[b]");
    },
  },
  {
    name: "lineage.text",
    run: async (bench) => {
      await open(bench);
      const sink = await bench.sink();
      const texts = { x: "done", y: "done", z: "done " };
      for (const [id, served_text] of Object.entries(texts))
        await record(sink, recordOf(bench.rolloutId, id, { served_text }));
      await record(
        sink,
        recordOf(bench.rolloutId, "t", { ...toolCalls("a"), served_text: "done" }),
      );
      expectFound(await found(bench, { kind: "text", text: "done" }), ["x", "y"], '"done"');
      expectFound(await found(bench, { kind: "text", text: "done " }), ["z"], '"done "');
    },
  },
  {
    name: "lineage.rollouts-apart",
    run: async (bench) => {
      const other = `${bench.rolloutId}.1`;
      for (const id of [bench.rolloutId, other]) await open(bench, id);
      await record(await bench.sink(), recordOf(other, "c1"));
      const key = { kind: "text", text: "answer of c1" } as const;
      expectFound(await found(bench, key), [], "a text of another rollout");
      expectFound(await found(bench, key, other), ["c1"], "a text");
    },
  },
  {
    name: "lineage.node",
    run: async (bench) => {
      await open(bench);
      const entry = recordOf(bench.rolloutId, "c1", toolCalls("a", "b"));
      await record(await bench.sink(), entry);
      const lineage = await bench.lineage();
      const key = { kind: "tool_call_ids", ids: ["a", "b"] } as const;
      const [node] = await lineage.candidates(bench.rolloutId, key);
      const twin = recordOf(bench.rolloutId, "c2", {
        ...toolCalls("c"),
        generation_token_ids: Int32Array.of(1, 1, 1),
      });
      await record(await bench.sink(), twin);
      const [second] = await lineage.candidates(bench.rolloutId, {
        kind: "tool_call_ids",
        ids: ["c"],
      });
      const wanted = {
        model: entry.model,
        contextDigest: entry.context_digest,
        contextLength: entry.context_length,
        fingerprintVersion: entry.fingerprint_version,
        servedText: "",
        servedToolCalls: entry.served_tool_calls,
        finishReason: entry.finish_reason,
        cumLen: 7,
      };
      for (const [field, value] of Object.entries(wanted)) {
        const seen: unknown = node?.[field as keyof typeof node];
        expect(
          canonicalJson(seen) === canonicalJson(value),
          `${field} is ${JSON.stringify(seen)}, recorded was ${JSON.stringify(value)}`,
        );
      }
      expect(
        node?.cumulativeDigest !== second?.cumulativeDigest,
        "unlike tokens have one cumulativeDigest",
      );
    },
  },
  {
    name: "lineage.cumulative-ids",
    run: async (bench) => {
      await open(bench);
      const entry = recordOf(bench.rolloutId, "c1");
      await record(await bench.sink(), entry);
      const lineage = await bench.lineage();
      const ids = await lineage.cumulativeIds(bench.rolloutId, "c1");
      expect(ids instanceof Int32Array, "cumulativeIds is no Int32Array");
      const wanted = cumulativeDigest(entry.prompt_token_ids, entry.generation_token_ids);
      expect(
        cumulativeDigest(ids, new Int32Array()) === wanted,
        "cumulativeIds is not the prompt and what was generated",
      );
      await expectRefused(
        () => lineage.cumulativeIds(bench.rolloutId, "unknown"),
        "cumulativeIds of a call that is not recorded",
      );
    },
  },
];
