import { describe, expect, it } from "vitest";
import {
  buildTrajectory,
  finalizeRolloutTokenCapture,
  flattenTrajectory,
  isTrainable,
  type RolloutResult,
  rebuildOthers,
  rebuildResponse,
  type TokenEntry,
  trajectoryRows,
} from "../../../src/capture/index.js";
import { call, continues, root } from "./entries.js";

const main = { ...root, purpose: "main", tools_offered: 4 };
const sub = { ...root, purpose: "subagent", tools_offered: 2 };

/** Main thread with a branch, its sub-agent, a title, and the thread again after a compaction. */
const rollout: TokenEntry[] = [
  call("a", [1], [2], main),
  call("b", [1, 2, 3], [4, 5], { ...continues("a"), purpose: "main", tools_offered: 4 }),
  call("k", [1, 2, 3, 4, 5, 6], [7], {
    ...continues("b"),
    purpose: "compaction",
    tools_offered: 4,
    served_message_id: "summary",
  }),
  call("s", [30], [31], sub),
  call("t", [30, 31, 32], [33], { ...continues("s"), purpose: "subagent", tools_offered: 2 }),
  call("u", [40], [41], { ...root, purpose: "title", tools_offered: 0 }),
  call("z", [50], [51], { ...main, served_message_id: "end" }),
  call("x", [1, 2, 8], [9], { ...continues("a"), purpose: "main", tools_offered: 4 }),
];
const terminal = { messageId: "end" };
const all = (entries: readonly TokenEntry[], more = {}) =>
  buildTrajectory(entries, { rolloutId: "r", delivery: "all", terminal, ...more });
const names = (chain: readonly TokenEntry[]) => chain.map((entry) => entry.model_call_id).join("");

function snapshotSource(entries: readonly TokenEntry[], incomplete = false) {
  const snapshot = {
    rolloutId: "r",
    entries,
    incomplete,
    incompleteReasons: [],
    failedCalls: 0,
    abortedCalls: 0,
    snapshotId: "s",
    version: 1,
  };
  return { freeze: async () => snapshot };
}

async function rowOf(entries: readonly TokenEntry[], options = {}, row: RolloutResult = {}) {
  const result = { _ng_rollout_id: "r", reward: 0.5, response: { id: "own" }, ...row };
  await finalizeRolloutTokenCapture(result, snapshotSource(entries), { terminal, ...options });
  // As a trainer reads it.
  return JSON.parse(JSON.stringify(result)) as typeof result & Record<string, unknown>;
}

describe("delivery of all chains", () => {
  it("T1 T2 gives the answer's chain first, then each chain with the calls that it owns", () => {
    const build = all(rollout);
    expect(names(build.chain)).toBe("z");
    expect(build.others.map((other) => [names(other.chain), other.purpose])).toEqual([
      ["ax", "main"],
      ["bk", "main"],
      ["st", "subagent"],
      ["u", "title"],
    ]);
    expect(build.metrics).toMatchObject({ trajectories: 5, chains: 5, mask_reasons: [] });
  });

  it("B6 masks a title by its purpose, and trains it when asked to", () => {
    const masked = (more = {}) =>
      all(rollout, more)
        .others.filter((other) => other.maskReasons.length > 0)
        .map((other) => other.maskReasons);
    expect(masked()).toEqual([[{ code: "PURPOSE_NOT_TRAINED", detail: "title" }]]);
    expect(masked({ trainedPurposes: ["main", "subagent", "title"] })).toEqual([]);
    const purposeOf = (entry: TokenEntry) =>
      entry.model_call_id === "s" ? ("other" as const) : undefined;
    expect(masked({ purposeOf })).toHaveLength(2);
  });

  it("B6 masks each chain for its own boundary, and all for the rollout's reasons", () => {
    const torn = { parent_resolution: "UNRESOLVED", parent_resolution_reason: "X" } as const;
    const cut = [...rollout, call("y", [60], [61], { ...torn, purpose: "main" })];
    const reasons = all(cut).others.map(({ chain, maskReasons }) => [
      names(chain),
      maskReasons.map((reason) => reason.code).join(),
    ]);
    expect(Object.fromEntries(reasons)).toMatchObject({ y: "UNRESOLVED_PARENT", st: "" });
    const lost = all(rollout, { incomplete: true });
    expect(lost.masked).toBe(true);
    expect(lost.others.every((other) => other.maskReasons.length > 0)).toBe(true);
    const nowhere = all(rollout.slice(0, 3), {
      terminal: { text: "gone" },
      extraMaskReasons: [{ code: "WORKER_DIED" }],
    });
    expect(nowhere.metrics.mask_reasons).toContainEqual({ code: "WORKER_DIED" });
  });

  it("B6 without a verdict of every call the chains do not prove each other", () => {
    const { parent_resolution: _, ...bare } = call("y", [60], [61], main);
    const build = all([...rollout, bare]);
    expect(build.masked).toBe(true);
    expect(build.others.every((other) => other.maskReasons.length > 0)).toBe(true);
  });

  it("each sampled token is trained once, in the rows that a trainer sees", async () => {
    const rows = trajectoryRows(await rowOf(rollout, { delivery: "all" }));
    expect(rows.map(isTrainable)).toEqual([true, true, true, true, false]);
    const trained = rows.filter(isTrainable).flatMap((row) => {
      const { tokenIds, lossMask } = flattenTrajectory(row.response);
      return [...tokenIds].filter((_, at) => lossMask[at] === 1);
    });
    expect(trained.sort((a, b) => a - b)).toEqual([2, 4, 5, 7, 9, 31, 33, 51]);
  });

  it("R1 each row has the rollout's reward, its own mask and its own metrics", async () => {
    const row = await rowOf(rollout, { delivery: "all" });
    const rows = trajectoryRows(row) as (typeof row & { _ng_trajectory: unknown })[];
    expect(rows.map((one) => one._ng_trajectory)).toEqual([
      { index: 0 },
      { index: 1, purpose: "main" },
      { index: 2, purpose: "main" },
      { index: 3, purpose: "subagent" },
      { index: 4, purpose: "title" },
    ]);
    for (const one of rows) {
      expect(one).toMatchObject({ _ng_rollout_id: "r", reward: 0.5 });
      expect("_ng_trajectories" in one).toBe(false);
    }
    expect(rows.map((one) => one.mask_sample)).toEqual([
      undefined,
      undefined,
      undefined,
      undefined,
      true,
    ]);
    expect(trajectoryRows(await rowOf(rollout))).toHaveLength(1);
  });

  it("R1 a row that was masked before masks all of its trajectories", async () => {
    const row = await rowOf(rollout, { delivery: "all" }, { mask_sample: true });
    expect(trajectoryRows(row).map((one) => one.mask_sample)).toEqual([
      true,
      true,
      true,
      true,
      true,
    ]);
    expect(trajectoryRows(row).some(isTrainable)).toBe(false);
  });
});

describe("output forms", () => {
  const chain = rollout.slice(0, 3);
  // The last call is a compaction: only as the answer is it not masked.
  const options = { terminal: { messageId: "summary" } };
  const prompts = (response: { output: readonly object[] } | null) =>
    response?.output.map((item) => Reflect.get(item, "prompt_token_ids"));

  it("P1 delta holds only what came since the item before", () => {
    const build = buildTrajectory(chain, { rolloutId: "r" });
    expect(prompts(rebuildResponse(build))).toEqual([[1], [1, 2, 3], [1, 2, 3, 4, 5, 6]]);
    const delta = rebuildResponse(build, { outputForm: "delta" });
    expect(prompts(delta)).toEqual([[1], [3], [6]]);
    expect(delta).toMatchObject({ output_form: "delta", usage: { input_tokens: 1 } });
  });

  it("P1 the first item of a side trajectory has the whole context in both forms", () => {
    const build = all(rollout);
    const [, side] = rebuildOthers(build, { outputForm: "delta" });
    expect(prompts(side ?? null)).toEqual([[1, 2, 3], [6]]);
    expect(side?.id).toBe("proj-r-2");
  });

  it("P3 views share the records' memory", () => {
    const build = buildTrajectory(chain, { rolloutId: "r" });
    const output = rebuildResponse(build, { arrays: "views" })?.output ?? [];
    output.forEach((item, index) => {
      const view = item["prompt_token_ids"] as Int32Array;
      expect(view.buffer).toBe(chain[index]?.prompt_token_ids.buffer);
      expect(item["generation_token_ids"]).toBe(chain[index]?.generation_token_ids);
    });
  });

  it("both forms flatten to the same sequence and mask, and both are trainable", async () => {
    const full = await rowOf(chain, options);
    const delta = await rowOf(chain, { ...options, outputForm: "delta" });
    expect(isTrainable(full)).toBe(true);
    expect(isTrainable(delta)).toBe(true);
    const flat = flattenTrajectory(full.response);
    expect(flattenTrajectory(delta.response)).toEqual(flat);
    expect([...flat.tokenIds]).toEqual([1, 2, 3, 4, 5, 6, 7]);
    expect([...flat.lossMask]).toEqual([0, 1, 0, 1, 1, 0, 1]);
    expect([...flat.logProbs]).toEqual([0, -0.5, 0, -0.5, -0.5, 0, -0.5]);
  });

  it("a delta row that lost its marker, or names another form, is not trainable", async () => {
    const delta = await rowOf(chain, { ...options, outputForm: "delta" });
    const as = (form: unknown) => ({
      ...delta,
      response: { ...(delta.response as object), output_form: form },
    });
    expect(isTrainable(as("delta"))).toBe(true);
    for (const form of [undefined, "full", "zip", 1]) expect(isTrainable(as(form))).toBe(false);
  });

  it("flatten refuses an item without all arrays and a prompt that is too short", () => {
    const item = { prompt_token_ids: [1], generation_token_ids: [2], generation_log_probs: [-1] };
    const { generation_log_probs: _, ...torn } = item;
    expect(() => flattenTrajectory({ output: [torn] })).toThrow(/not all/);
    expect(() => flattenTrajectory({ output: [item, item] })).toThrow(/does not continue/);
    expect(flattenTrajectory({ output: [{ type: "message" }] }).tokenIds).toHaveLength(0);
  });
});

describe("purposes", () => {
  const purposes = (entries: readonly TokenEntry[], more = {}) =>
    Object.fromEntries(buildTrajectory(entries, { rolloutId: "r", ...more }).purposes);

  it("U1 the recorded label stands unless it is overridden; an unknown one is other", () => {
    const known = purposes(rollout, {
      purposeOf: (entry: TokenEntry) => (entry.model_call_id === "t" ? "main" : undefined),
    });
    expect(known).toEqual({
      a: "main",
      b: "main",
      k: "compaction",
      s: "subagent",
      t: "main",
      u: "title",
      z: "main",
      x: "main",
    });
    expect(purposes([call("a", [1], [2]), call("b", [3], [4], { purpose: "poem" })])).toEqual({
      a: "main",
      b: "other",
    });
  });

  it("U2 a call without tools beside calls with tools is no main call (https://github.com/NVIDIA-NeMo/Gym/pull/3212)", () => {
    const side = call("q", [9], [8], { ...root, purpose: "main", tools_offered: 0 });
    expect(purposes([...rollout, side])["q"]).toBe("other");
    expect(purposes([side])["q"]).toBe("main");
  });

  it("are shown with each item", () => {
    const output = rebuildResponse(
      buildTrajectory(rollout.slice(0, 3), { rolloutId: "r" }),
    )?.output;
    expect(output?.map((item) => Reflect.get(item["_ng_model_call"] as object, "purpose"))).toEqual(
      ["main", "main", "compaction"],
    );
  });
});

describe("warnings", () => {
  const warnings = (...entries: TokenEntry[]) =>
    buildTrajectory(entries, { rolloutId: "r" }).metrics.warnings;
  const said = (text: string, tools = 2) =>
    call("a", [1], [2], { ...root, served_text: text, tools_offered: tools });
  const more = call("b", [1, 2, 3], [4], { ...continues("a"), tools_offered: 2 });

  it("H1 one main call although tools were offered", () => {
    expect(warnings(said("done"))).toEqual(["SINGLE_CALL_WITH_TOOLS"]);
    const title = call("t", [9], [8], { ...root, purpose: "title", tools_offered: 0 });
    expect(warnings(said("done"), title)).toEqual(["SINGLE_CALL_WITH_TOOLS"]);
    expect(warnings(said("done"), more)).toEqual([]);
    expect(warnings(said("done", 0))).toEqual([]);
    expect(warnings(call("a", [1], [2]))).toEqual([]);
  });

  it.each([
    '<tool_call>\n{"name": "Bash"}\n</tool_call>',
    "</tool_call>",
    "<function=Bash>",
    "<|python_tag|>ls",
    '[TOOL_CALLS] [{"name": "x"}]',
    'I call { "name": "Bash", "arguments": {"command": "ls"}}',
    '{"name":"Bash","parameters":{}}',
    '<invoke name="Bash">',
  ])("H2 markup left in text: %s", (text) => {
    expect(warnings(said(text), more)).toEqual(["TOOL_MARKUP_IN_TEXT"]);
    expect(warnings(said(text, 0))).toEqual([]);
  });

  it("H2 text about tools is no markup", () => {
    expect(warnings(said('The tool_call has a "name" and "arguments".'), more)).toEqual([]);
  });
});
