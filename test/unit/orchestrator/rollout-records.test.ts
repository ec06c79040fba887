import fs from "node:fs";
import path from "node:path";
import { expect, it } from "vitest";
import { TokenCaptureStore, tokenEntryToJson } from "../../../src/capture/index.js";
import { inspectRollout } from "../../../src/orchestrator/explain-rollout.js";
import { readRolloutRecords } from "../../../src/orchestrator/rollout-records.js";
import { entryOf, temporaryDirectory } from "../../support/capture.js";

async function runFolder(): Promise<string> {
  const base = temporaryDirectory();
  const store = new TokenCaptureStore({ dir: path.join(base, "run-1") });
  await store.open("r1");
  await store.put(entryOf("r1", "c1"));
  await store.endCall("r1", "c2", "failed");
  await store.close();
  return base;
}

function entriesFile(...lines: string[]): string {
  const file = path.join(temporaryDirectory(), "entries.jsonl");
  fs.writeFileSync(file, lines.join("\n"));
  return file;
}

const record = JSON.stringify(tokenEntryToJson(entryOf("r1", "c1")));

it("reads one rollout of a file of records", async () => {
  const other = JSON.stringify(tokenEntryToJson(entryOf("r2", "c1")));
  const entries = entriesFile(other, record, other);
  const found = await readRolloutRecords("r1", { entries });
  expect(found.entries).toHaveLength(1);
  const { calls, build } = await inspectRollout("r1", { entries });
  expect(calls).toMatchObject([{ callId: "c1", state: "shown" }]);
  expect(build.masked).toBe(false);
});

it("reads an open rollout of a run directory or of a folder of them as not finished, and leaves it open", async () => {
  const base = await runFolder();
  for (const dir of [base, path.join(base, "run-1")]) {
    const { entries, options } = await readRolloutRecords("r1", { dir });
    expect(entries).toHaveLength(1);
    const incompleteReasons = ["NOT_FINISHED"];
    expect(options).toMatchObject({ rolloutId: "r1", failedCalls: 1, incompleteReasons });
    expect(options.incomplete).toBe(true);
  }
  const store = new TokenCaptureStore({ dir: path.join(base, "run-1") });
  await store.put(entryOf("r1", "c3"));
  expect((await store.freeze("r1")).entries).toHaveLength(2);
  await store.close();
});

it("takes the final answer and what did not arrive from the journal", async () => {
  const base = await runFolder();
  const outcome = { finalMessageId: "m", finalText: null };
  const lines = [
    { state: "finished", finished: { rolloutId: "r0", outcome: {} }, ledgers: [] },
    {
      state: "finished",
      finished: { rolloutId: "r1", outcome },
      ledgers: [null, { undeliveredCallIds: ["c1"] }, { started: 1 }],
    },
  ];
  const journal = path.join(base, "run-1", "journal.jsonl");
  fs.writeFileSync(journal, lines.map((line) => JSON.stringify(line)).join("\n"));
  const { options } = await readRolloutRecords("r1", { dir: base });
  expect(options).toMatchObject({
    terminal: { messageId: "m", text: null },
    undeliveredCallIds: ["c1"],
    incomplete: false,
  });
});

it("refuses what it cannot find, naming the option", async () => {
  const base = await runFolder();
  const cases: [string, object, RegExp][] = [
    ["r1", {}, /^--entries, --dir, --server: exactly one must be given/],
    ["r1", { dir: base, entries: "x" }, /exactly one must be given/],
    ["r9", { dir: base }, /^--dir: .* holds nothing of rollout r9/],
    ["r9", { entries: entriesFile(record) }, /^--entries: .* holds nothing of rollout r9/],
    ["r1", { entries: entriesFile("7") }, /^--entries: line 1 of .* is no record/],
    ["r1", { entries: path.join(base, "none") }, /^--entries: cannot read .*ENOENT/],
    ["r1", { dir: path.join(base, "none") }, /^--dir: cannot read .*ENOENT/],
  ];
  for (const [rolloutId, place, message] of cases)
    await expect(readRolloutRecords(rolloutId, place)).rejects.toThrow(message);
});
