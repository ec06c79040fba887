/** `corral explain` and `corral inspect` over records in a file and in a store that is left as it was. */
import fs from "node:fs";
import path from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { TokenCaptureStore, type TokenEntry, tokenEntryToJson } from "../../src/capture/index.js";
import { loadQwen3Vocabulary } from "../../src/embedded-policy/index.js";
import { temporaryDirectory } from "../support/capture.js";
import { runCorral } from "../support/corral-cli.js";

let entries: TokenEntry[] = [];

beforeAll(async () => {
  const vocabulary = await loadQwen3Vocabulary();
  const made = async (id: string, prompt: string, text: string, more: Partial<TokenEntry> = {}) => {
    const generation = await vocabulary.encode(text);
    const entry: TokenEntry = {
      schema_version: 1,
      rollout_id: "r1",
      model_call_id: id,
      model: "policy",
      prompt_token_ids: await vocabulary.encode(prompt),
      generation_token_ids: generation,
      generation_log_probs: new Float64Array(generation.length).fill(-0.5),
      output_items: [{ type: "message" }],
      token_item_index: 0,
      created_at: Number(id.slice(1)),
      parent_resolution: "ROOT",
      purpose: "main",
      served_message_id: `msg_${id}`,
      served_text: text,
      ...more,
    };
    return entry;
  };
  const edited = {
    parent_resolution: "UNRESOLVED",
    parent_resolution_reason: "CONTEXT_CHANGED",
  } as const;
  entries = [
    await made("c1", "do it", " now"),
    await made("c2", "do that", " later", edited),
    await made("c3", "find a title", " Title", { purpose: "title" }),
  ];
});

function entriesFile(): string {
  const file = path.join(temporaryDirectory(), "entries.jsonl");
  fs.writeFileSync(file, entries.map((e) => `${JSON.stringify(tokenEntryToJson(e))}\n`).join(""));
  return file;
}

/** A folder of one run with the records in its store. */
async function runFolder(): Promise<{ base: string; dir: string }> {
  const base = temporaryDirectory();
  const dir = path.join(base, "run-1");
  const store = new TokenCaptureStore({ dir });
  await store.open("r1");
  for (const entry of entries) await store.put(entry);
  await store.close();
  return { base, dir };
}

describe("corral explain", () => {
  it("names each break with the first differing token on both sides, from a file", async () => {
    const { code, stdout } = await runCorral(["explain", "r1", "--entries", entriesFile()]);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^rollout r1: 3 calls, 3 chains, 3 roots; masked: MULTIPLE_ROOTS \(3\)/);
    expect(stdout).toContain("call c2 (main): unresolved (CONTEXT_CHANGED)");
    expect(stdout).toContain("  like call c1 up to token 1");
    expect(stdout).toMatch(/ {2}recorded {2}\[\d+\] " it now"/);
    expect(stdout).toMatch(/ {2}sent {6}\[\d+\] " that"/);
    expect(stdout).toContain("call c3 (title): auxiliary call");
  });

  it("finds the rollout in the stores of a folder, uses the journal, and freezes nothing", async () => {
    const { base, dir } = await runFolder();
    const finished = {
      rolloutId: "r1",
      outcome: { finalMessageId: "msg_c1", finalText: " now" },
    };
    fs.writeFileSync(
      path.join(dir, "journal.jsonl"),
      `${JSON.stringify({ state: "started", rolloutId: "r1" })}\n${JSON.stringify({ state: "finished", finished, ledgers: [] })}\n`,
    );
    const { code, stdout } = await runCorral(["explain", "r1", "--dir", base, "--json"]);
    expect(code).toBe(0);
    const told = JSON.parse(stdout);
    expect(told).toMatchObject({ rollout_id: "r1", masked: false });
    expect(told.metrics.terminal_attribution).toMatchObject({ call_id: "c1", chain: "delivered" });
    expect(told.breaks.map((one: { callId: string }) => one.callId)).toEqual(["c2", "c3"]);
    const store = new TokenCaptureStore({ dir });
    await store.open("r2");
    await store.put({ ...(entries[0] as TokenEntry), model_call_id: "c4" });
    expect((await store.freeze("r1")).incomplete).toBe(false);
    await store.close();
  });

  it("refuses what it cannot find, with exit code 2", async () => {
    const { code, stderr } = await runCorral(["explain", "r9", "--entries", entriesFile()]);
    expect(code).toBe(2);
    expect(stderr).toMatch(/^corral: --entries: .* holds nothing of rollout r9/);
  });
});

describe("corral inspect", () => {
  it("prints the tree of a rollout's calls", async () => {
    const { dir } = await runFolder();
    const { code, stdout } = await runCorral(["inspect", "r1", "--dir", dir]);
    expect(code).toBe(0);
    expect(stdout.split("\n").slice(1)).toEqual([
      "* c1 main, prompt 2, generated 1, shown",
      "* c2 main, prompt 2, generated 1, unresolved: CONTEXT_CHANGED",
      "* c3 title, prompt 3, generated 1",
      "",
    ]);
  });

  it("tells without a rollout what the stores of a folder hold, and leaves them as they are", async () => {
    const { base, dir } = await runFolder();
    const store = new TokenCaptureStore({ dir, now: () => Date.UTC(2026, 0, 2) });
    const [first] = entries as [TokenEntry];
    const of = (rollout_id: string): TokenEntry => ({ ...first, rollout_id });
    for (const id of ["sound", "late", "two-roots", "dropped", "died"]) {
      await store.open(id);
      await store.put(of(id));
    }
    await store.beginCall("r1", "c9");
    await store.beginCall("r1", "c10");
    await store.endCall("r1", "c10", "aborted");
    await store.put({ ...of("two-roots"), model_call_id: "c2" });
    for (const id of ["sound", "late", "two-roots", "died"]) await store.freeze(id);
    await expect(store.put({ ...of("late"), model_call_id: "c2" })).rejects.toThrow();
    await store.drop("dropped", await store.freeze("dropped"));
    await expect(store.put(of("dropped"))).rejects.toThrow();
    await store.close();
    const finished = { rolloutId: "died", outcome: {} };
    fs.writeFileSync(
      path.join(dir, "journal.jsonl"),
      `${JSON.stringify({ state: "finished", finished, ledgers: [null] })}\n`,
    );

    const { code, stdout } = await runCorral(["inspect", "--dir", base, "--json"]);
    expect(code).toBe(0);
    const { stores } = JSON.parse(stdout);
    expect(stores).toHaveLength(1);
    const [told] = stores;
    expect(told).toMatchObject({
      dir,
      storeVersion: 1,
      rollouts: { open: 1, frozen: 4, retired: 1 },
      calls: 8,
      failedCalls: 0,
      abortedCalls: 1,
      unsettledCalls: 1,
      generatedTokens: 8,
      incomplete: 1,
      incompleteReasons: { PUT_AFTER_FREEZE: 1 },
      refusedPuts: 1,
      lateWrites: 1,
      newestMs: Date.UTC(2026, 0, 2),
      frozenIds: ["sound", "late", "two-roots", "died"],
      masked: 3,
    });
    expect(told.maskReasons).toMatchObject({
      CAPTURE_INCOMPLETE: 1,
      WORKER_DIED: 1,
      UNRESOLVED_RETRY: 1,
    });
    expect(told.recordBytes).toBeGreaterThan(0);
    expect(told.fileBytes).toBeGreaterThan(told.recordBytes);

    const text = await runCorral(["inspect", "--dir", dir]);
    expect(text.stdout).toContain("  rollouts    1 open, 4 frozen, 1 retired\n");
    expect(text.stdout).toContain("  incomplete  1: PUT_AFTER_FREEZE 1\n");
    expect(text.stdout).toContain("  refused     1 puts, 1 late writes\n");
    expect(text.stdout).toMatch(/ {2}masked {6}3: [A-Z_ 0-9,]*CAPTURE_INCOMPLETE 1/);
    const again = await runCorral(["inspect", "--dir", base, "--json"]);
    expect(again.stdout).toBe(stdout);
  });

  it.each([
    [["inspect"], /^corral: --dir: must be given, alone/],
    [["inspect", "--entries", "x"], /^corral: --dir: must be given, alone/],
    [["inspect", "--dir", "/nowhere"], /--dir: \/nowhere holds no capture\.db; allowed: /],
    [["inspect", "--dir", "package.json"], /--dir: package\.json holds no capture\.db/],
  ])("%j exits with 2 and one line", async (args, message) => {
    const { code, stderr } = await runCorral(args);
    expect(code).toBe(2);
    expect(stderr).toMatch(message);
  });
});
