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
});
