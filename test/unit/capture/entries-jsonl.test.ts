import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { describe, expect, it } from "vitest";
import { rebuildEntries, rebuildEntriesFile } from "../../../src/capture/index.js";
import { builderCases } from "./entries.js";

const record = (rollout: string, id: string, more = {}) => ({
  rollout_id: rollout,
  model_call_id: id,
  model: "m",
  prompt_token_ids: [1],
  generation_token_ids: [2],
  generation_log_probs: [-0.5],
  output_items: [],
  token_item_index: null,
  created_at: 1,
  ...more,
});
async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
}
const rebuild = (...lines: unknown[]) =>
  collect(
    rebuildEntries(lines.map((line) => (typeof line === "string" ? line : JSON.stringify(line)))),
  );

describe("rebuild from JSONL", () => {
  it("reads a file of interleaved rollouts and gives the recorded builds", async () => {
    const cases = builderCases();
    const dir = mkdtempSync(path.join(tmpdir(), "corral-entries-"));
    try {
      const entries = cases.flatMap(({ entries }) => entries);
      // Every second record first: rollouts are mixed, as writers of several workers leave them.
      const mixed = [...entries.filter((_, i) => i % 2), ...entries.filter((_, i) => i % 2 === 0)];
      const file = path.join(dir, "entries.jsonl");
      writeFileSync(file, `${mixed.map((entry) => JSON.stringify(entry)).join("\n\n")}\n`);
      const builds = await collect(rebuildEntriesFile(file));
      expect(builds).toHaveLength(400);
      for (const { expected } of cases) {
        const got = builds.find((build) => build.rollout_id === expected.rollout_id);
        expect(got).toMatchObject({
          rebuilt_response: expected.rebuilt_response,
          metrics: expected.metrics,
          mask_sample: expected.mask_sample,
        });
        expect(got?.error !== undefined).toBe(expected.error !== undefined);
      }
    } finally {
      rmSync(dir, { recursive: true });
    }
  });

  it("J1 fails the one rollout that a bad record names, with line and field", async () => {
    const bad = record("r", "b", { generation_log_probs: [] });
    const [r, s] = await rebuild(record("r", "a"), "", bad, record("s", "a"));
    expect(r).toMatchObject({ rebuilt_response: null, mask_sample: true, metrics: { n_calls: 2 } });
    expect(r?.error).toMatch(/^RECORD_INVALID: line 3, rollout r: .*generation_log_probs/);
    expect(s).toMatchObject({ rollout_id: "s", mask_sample: false });
  });

  it("J1 builds nothing when a line cannot be told to a rollout", async () => {
    await expect(rebuild(record("r", "a"), '{"rollout_id":"r"')).rejects.toMatchObject({
      code: "RECORD_INVALID",
      message: "line 2: not JSON",
    });
    await expect(rebuild("7")).rejects.toThrow("line 1: rollout_id");
    await expect(rebuild("null")).rejects.toThrow("line 1: rollout_id");
    await expect(rebuild(record("", "a"))).rejects.toThrow("line 1: rollout_id");
  });

  it("J2 refuses a newer record by name: line, rollout, both versions", async () => {
    const [r] = await rebuild(record("r", "a"), record("r", "b", { schema_version: 2, model: 7 }));
    expect(r?.mask_sample).toBe(true);
    expect(r?.rebuilt_response).toBeNull();
    expect(r?.error).toMatch(/^SCHEMA_TOO_NEW: line 2, rollout r: .*2.*1/);
  });

  it("refuses the same call with two payloads", async () => {
    const [r] = await rebuild(record("r", "a"), record("r", "a", { generation_token_ids: [3] }));
    expect(r?.error).toMatch(/^RECORD_CONFLICT/);
  });
});
