import { describe, expect, it } from "vitest";
import { type ChainBreak, explainBreaks, type TokenEntry } from "../../../src/capture/index.js";
import { loadQwen3Vocabulary } from "../../../src/embedded-policy/index.js";
import { call, continues, root } from "./entries.js";

const vocabulary = await loadQwen3Vocabulary();
const ids = (text: string) => vocabulary.encode(text);
const decode = (tokens: Int32Array) => vocabulary.decode(tokens);

/** A call over texts; `sent` is the whole prompt. */
async function said(
  id: string,
  sent: string | Int32Array,
  generated: string | Int32Array,
  more: Partial<TokenEntry> = {},
): Promise<TokenEntry> {
  const [prompt, generation] = await Promise.all(
    [sent, generated].map((text) => (typeof text === "string" ? ids(text) : text)),
  );
  const time = { created_at: Number.parseInt(id, 36) };
  return call(id, prompt ?? [], generation ?? [], { ...root, purpose: "main", ...time, ...more });
}

const join = (...parts: Int32Array[]) => Int32Array.from(parts.flatMap((part) => [...part]));
const breaks = (entries: readonly TokenEntry[], more = {}) =>
  explainBreaks(entries, { rolloutId: "r", ...more }, decode);
const unresolved = (reason: string): Partial<TokenEntry> => ({
  parent_resolution: "UNRESOLVED",
  parent_resolution_reason: reason,
});

const system = "<|im_start|>system\nagent<|im_end|>\n";
const user = "<|im_start|>user\ndo it<|im_end|>\n<|im_start|>assistant\n";
const start = system + user;
const ls =
  '<tool_call>\n{"name": "Bash", "arguments": {"command": "ls", "timeout": 5}}\n</tool_call>';
const next = "<|im_end|>\n<|im_start|>user\ngo on<|im_end|>\n<|im_start|>assistant\n";

async function only(entries: readonly TokenEntry[]): Promise<ChainBreak> {
  const found = breaks(entries);
  expect(found).toHaveLength(1);
  return found[0] as ChainBreak;
}

describe("causes of a break", () => {
  it("none where every call continues the one before", async () => {
    const a = await said("1", start, `${ls}<|im_end|>`);
    const joined = join(a.prompt_token_ids, a.generation_token_ids, await ids("\nmore"));
    expect(breaks([a, await said("2", joined, "done", continues("1"))])).toEqual([]);
  });

  it("X2 re-tokenised: the same text in other tokens, with the first differing token on both sides", async () => {
    const split = join(await ids("hel"), await ids("lo"), await ids(" there, friend<|im_end|>"));
    const a = await said("1", start, split);
    const whole = await said("2", `${start}hello there, friend${next}`, "x", continues("1"));
    const found = await only([a, whole]);
    expect(found).toMatchObject({
      callId: "2",
      cause: "re-tokenised",
      reason: "LINK_MISMATCH",
      comparedWith: "1",
    });
    const difference = found.firstDifference;
    expect(difference?.position).toBe(a.prompt_token_ids.length);
    expect(difference?.recordedId).toBe(split[0]);
    expect(difference?.sentId).toBe(whole.prompt_token_ids[a.prompt_token_ids.length]);
    expect(difference?.before).toMatch(/assistant\n$/);
    expect(difference?.recorded.startsWith("hello there")).toBe(true);
    expect(difference?.sent.startsWith("hello there")).toBe(true);
  });

  it("reasoning stripped", async () => {
    const a = await said(
      "1",
      start,
      "<think>\nI should look.\n</think>\n\nLet me see the file<|im_end|>",
    );
    const b = await said(
      "2",
      `${start}Let me see the file${next}`,
      "x",
      unresolved("CONTEXT_CHANGED"),
    );
    expect(await only([a, b])).toMatchObject({
      cause: "reasoning stripped",
      reason: "CONTEXT_CHANGED",
    });
    const inside = await said(
      "1",
      `${start}<think>\n`,
      "I look.\n</think>\n\nLet me see it<|im_end|>",
    );
    const c = await said("2", `${start}<think>\nLet me see it${next}`, "x", unresolved("X"));
    expect((await only([inside, c])).cause).toBe("reasoning stripped");
  });

  it("arguments re-serialised", async () => {
    const other = ls.replace('"command": "ls", "timeout": 5', '"timeout":5,"command":"ls"');
    const a = await said("1", start, `${ls}<|im_end|>`);
    const b = await said("2", `${start}${other}${next}`, "x", unresolved("NO_LINEAGE"));
    expect((await only([a, b])).cause).toBe("arguments re-serialised");
    const another = ls.replace('"ls"', '"rm"');
    const c = await said("2", `${start}${another}${next}`, "x", unresolved("ECHO_CHANGED"));
    expect(await only([a, c])).toMatchObject({ cause: "unresolved", reason: "ECHO_CHANGED" });
  });

  it("billing line", async () => {
    const billed = (nonce: string) =>
      `<|im_start|>system\nx-anthropic-billing-header: cc_version=2.1; cch=${nonce};\n${user}`;
    const a = await said("1", billed("36ee5"), "x");
    const b = await said("2", `${billed("0aaa9")}x${next}`, "y", unresolved("CONTEXT_CHANGED"));
    expect((await only([a, b])).cause).toBe("billing line");
  });

  it("compaction, sub-agent, auxiliary call, new conversation", async () => {
    const a = await said("1", start, "one<|im_end|>");
    const sub = await said("2", `${system}sub`, "x", { purpose: "subagent" });
    const title = await said("3", "title this", "x", { purpose: "title" });
    const fresh = await said("4", `${system}another`, "x");
    const summary = await said("5", `${system}sum up`, "x", { purpose: "compaction" });
    const after = await said("6", `${system}a summary`, "x");
    const found = breaks([a, sub, title, fresh, summary, after]);
    expect(found.map(({ callId, cause }) => [callId, cause])).toEqual([
      ["2", "sub-agent"],
      ["3", "auxiliary call"],
      ["4", "new conversation"],
      ["5", "auxiliary call"],
      ["6", "compaction"],
    ]);
    expect(found[1]?.comparedWith).toBeUndefined();
  });

  it("X1 retry and branch, ambiguous twins", async () => {
    const a = await said("1", start, "one<|im_end|>");
    const joined = join(a.prompt_token_ids, a.generation_token_ids, await ids("\nmore"));
    const b = await said("2", joined, "two", continues("1"));
    const c = await said("3", joined, "three", continues("1"));
    const causes = (entries: TokenEntry[], more = {}) =>
      breaks(entries, more).map(({ callId, cause, reason }) => [callId, cause, reason]);
    expect(causes([a, b, c])).toEqual([
      ["2", "retry", "UNRESOLVED_RETRY"],
      ["3", "retry", "UNRESOLVED_RETRY"],
    ]);
    expect(causes([a, b, c], { undeliveredCallIds: ["2"] })).toEqual([
      ["2", "retry", "SUPERSEDED"],
    ]);
    const fork = await said("3", join(joined, await ids("!")), "three", continues("1"));
    expect(causes([a, b, fork])).toEqual([["3", "branch", undefined]]);
    const bare = ({ parent_resolution: _, parent_call_id: _id, ...entry }: TokenEntry) => entry;
    const twins = [a, { ...a, model_call_id: "2", created_at: 2 }, { ...b, model_call_id: "3" }];
    expect(causes(twins.map(bare)).map(([id, cause]) => `${id} ${cause}`)).toContain("3 ambiguous");
  });

  it("unresolved although the tokens would continue", async () => {
    const a = await said("1", start, "one<|im_end|>");
    const joined = join(a.prompt_token_ids, a.generation_token_ids, await ids("\nmore"));
    const b = await said("2", joined, "two", unresolved("LINEAGE_FAILED: gone"));
    const found = await only([a, b]);
    expect(found).toMatchObject({ cause: "unresolved", reason: "LINEAGE_FAILED: gone" });
    expect(found.firstDifference).toBeUndefined();
    const first = await only([await said("1", start, "x", unresolved("NO_CANDIDATE"))]);
    expect(first).toMatchObject({ cause: "unresolved", reason: "NO_CANDIDATE" });
  });

  it("nothing is told of records that cannot be read", () => {
    expect(breaks([call("a", [1], [2], { rollout_id: "other" })])).toEqual([]);
  });
});
