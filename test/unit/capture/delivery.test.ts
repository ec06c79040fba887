import { describe, expect, it } from "vitest";
import {
  type FinalizeOptions,
  finalizeRolloutTokenCapture,
  isTrainable,
  type RolloutResult,
  retireRolloutTokenCapture,
  type TokenCaptureSnapshot,
  type TokenEntry,
} from "../../../src/capture/index.js";
import { call, continues, root } from "./entries.js";

const chain = [call("a", [1], [2], root), call("b", [1, 2, 3], [4], continues("a"))];

function snapshotOf(entries: readonly TokenEntry[], more = {}): TokenCaptureSnapshot {
  return {
    rolloutId: "r",
    entries,
    incomplete: false,
    incompleteReasons: [],
    failedCalls: 0,
    abortedCalls: 0,
    snapshotId: "s1",
    version: 3,
    ...more,
  };
}

/** A source over one snapshot that remembers what was dropped. */
function sourceOf(snapshot: unknown) {
  const dropped: unknown[] = [];
  return {
    dropped,
    freeze: async () => snapshot as TokenCaptureSnapshot,
    drop: async (rolloutId: string, exact: unknown) => {
      dropped.push([rolloutId, exact]);
      return true;
    },
  };
}

const row = (more = {}): RolloutResult => ({
  _ng_rollout_id: "r",
  reward: 1,
  response: { object: "response", id: "resp", model: "m", output: [{ type: "message" }] },
  ...more,
});

async function finalize(result: RolloutResult, snapshot: unknown, options: FinalizeOptions = {}) {
  const built = await finalizeRolloutTokenCapture(result, sourceOf(snapshot), options);
  return { built, result, codes: built.metrics?.mask_reasons.map((reason) => reason.code) };
}

const ledger = (...recordedCallIds: string[]) => ({
  started: recordedCallIds.length,
  recordedCallIds,
  failed: 0,
  aborted: 0,
  captureLost: 0,
});

describe("finalize", () => {
  it("rebuilds the output in place and leaves no mask on a clean rollout", async () => {
    const before = row({ task: "kept" });
    const { response } = before;
    const { built, result } = await finalize(before, snapshotOf(chain));
    expect(built).toMatchObject({ masked: false, snapshot: { snapshotId: "s1", version: 3 } });
    expect("mask_sample" in result).toBe(false);
    expect(result.response).toBe(response);
    expect(result).toMatchObject({
      task: "kept",
      response: {
        id: "resp",
        output: [{ prompt_token_ids: [1] }, { prompt_token_ids: [1, 2, 3] }],
      },
      _ng_token_capture: { n_calls: 2, chains: 1, delivered_fraction: 1, mask_reasons: [] },
    });
    expect(isTrainable(JSON.parse(JSON.stringify(result)))).toBe(true);
  });

  const failures: [string, RolloutResult, unknown, string][] = [
    ["no id", row({ _ng_rollout_id: undefined }), snapshotOf(chain), "ROLLOUT_ID_MISSING"],
    ["a path as id", row({ _ng_rollout_id: "../x" }), snapshotOf(chain), "ROLLOUT_ID_INVALID"],
    ["a number as id", row({ _ng_rollout_id: 7 }), snapshotOf(chain), "ROLLOUT_ID_INVALID"],
    [
      "a long id",
      row({ _ng_rollout_id: "x".repeat(201) }),
      snapshotOf(chain),
      "ROLLOUT_ID_INVALID",
    ],
    ["no entries", row(), snapshotOf([]), "NO_ENTRIES"],
    [
      "a newer record",
      row(),
      snapshotOf([{ ...call("a", [1], [2]), schema_version: 9 }]),
      "SCHEMA_TOO_NEW",
    ],
    [
      "another rollout's record",
      row(),
      snapshotOf([call("a", [1], [2], { rollout_id: "q" })]),
      "RECORD_INVALID",
    ],
    ["nothing at all", row(), undefined, "RECORD_INVALID"],
    [
      "no word on completeness",
      row(),
      { ...snapshotOf(chain), incomplete: undefined },
      "RECORD_INVALID",
    ],
    ["another rollout's snapshot", row(), snapshotOf(chain, { rolloutId: "q" }), "RECORD_INVALID"],
    [
      "entries that are no records",
      row(),
      snapshotOf([null as unknown as TokenEntry]),
      "RECORD_INVALID",
    ],
    [
      "a NaN log probability (F16)",
      row(),
      snapshotOf([call("a", [1], [2], { generation_log_probs: Float64Array.of(Number.NaN) })]),
      "RECORD_INVALID",
    ],
    [
      "vLLM's -9999 (F16)",
      row(),
      snapshotOf([call("a", [1], [2], { generation_log_probs: Float64Array.of(-9999) })]),
      "RECORD_INVALID",
    ],
  ];
  it.each(failures)("D1 masks %s", async (_, result, snapshot, code) => {
    const { built, codes } = await finalize(result, snapshot);
    expect(built).toMatchObject({ masked: true, error: { code } });
    expect(codes).toEqual([code]);
    expect(result).toMatchObject({
      mask_sample: true,
      _ng_token_capture: { error: expect.stringContaining(code) },
    });
    expect(result.response).toEqual(row().response);
    expect(isTrainable(result)).toBe(false);
  });

  it("D1 never throws, whatever the source or the result is", async () => {
    const sources = [
      { freeze: () => Promise.reject(new Error("disk")) },
      { freeze: () => Promise.reject("text") },
      {
        freeze: () => {
          throw new Error("sync");
        },
      },
      { freeze: async () => 7 as unknown as TokenCaptureSnapshot },
      {
        freeze: async () =>
          ({
            get entries() {
              throw new Error("trap");
            },
          }) as unknown as TokenCaptureSnapshot,
      },
      {} as { freeze: () => Promise<TokenCaptureSnapshot> },
      null as unknown as { freeze: () => Promise<TokenCaptureSnapshot> },
    ];
    for (const source of sources) {
      const result = row();
      const built = await finalizeRolloutTokenCapture(result, source);
      expect(built.masked).toBe(true);
      expect(built.error).toBeDefined();
      expect(result.mask_sample).toBe(true);
    }
    const results = [
      null,
      undefined,
      7,
      Object.freeze(row()),
      row({ response: Object.freeze({ output: [] }) }),
    ];
    for (const result of results as RolloutResult[]) {
      const built = await finalizeRolloutTokenCapture(result, sourceOf(snapshotOf(chain)));
      expect(built.masked).toBe(true);
      expect(built.error).toBeDefined();
    }
  });

  it("D1 keeps the code of a source's own error", async () => {
    const error = Object.assign(new Error("newer file"), { code: "SCHEMA_TOO_NEW" });
    const built = await finalizeRolloutTokenCapture(row(), { freeze: () => Promise.reject(error) });
    expect(built.error).toEqual({ code: "SCHEMA_TOO_NEW", message: "newer file" });
  });

  it("D2 masks an incomplete snapshot and still shows its chain", async () => {
    const { built, result, codes } = await finalize(row(), snapshotOf(chain, { incomplete: true }));
    expect(built.masked).toBe(true);
    expect(codes).toEqual(["CAPTURE_INCOMPLETE"]);
    expect(result).toMatchObject({
      mask_sample: true,
      _ng_token_capture: { capture_incomplete: true },
    });
    expect(isTrainable(result)).toBe(false);
  });

  const counts: [string, FinalizeOptions, string[]][] = [
    ["equal ledgers of two workers", { ledgers: [ledger("a"), ledger("b")] }, []],
    ["a call the store lost", { ledgers: [ledger("a", "b", "c")] }, ["LEDGER_MISMATCH"]],
    ["a call no worker counted", { ledgers: [ledger("a")] }, ["LEDGER_MISMATCH"]],
    ["a lost capture", { ledgers: [{ ...ledger("a", "b"), captureLost: 1 }] }, ["CAPTURE_LOST"]],
    [
      "a count that is no number",
      { ledgers: [{ ...ledger("a", "b"), captureLost: Number.NaN }] },
      ["CAPTURE_LOST"],
    ],
    [
      "a call without an outcome",
      { ledgers: [{ ...ledger("a", "b"), started: 3 }] },
      ["LEDGER_MISMATCH"],
    ],
    [
      "failed and aborted calls",
      { ledgers: [{ ...ledger("a", "b"), started: 4, failed: 1, aborted: 1 }] },
      [],
    ],
    ["the expected ids", { expectedCallIds: ["b", "a"] }, []],
    ["other expected ids", { expectedCallIds: ["a"] }, ["LEDGER_MISMATCH"]],
    [
      "a reason of the caller",
      { extraMaskReasons: [{ code: "WORKER_RESTARTED" }] },
      ["WORKER_RESTARTED"],
    ],
    ["an answer in no chain", { terminal: { messageId: "none" } }, []],
  ];
  it.each(counts)("D2 %s", async (_, options, want) => {
    const { built, codes } = await finalize(row(), snapshotOf(chain), options);
    expect(codes).toEqual(want);
    expect(built.masked).toBe(want.length > 0);
  });

  it("D2 an empty snapshot does not pass because every put failed", async () => {
    const { built } = await finalize(row(), snapshotOf([]), {
      ledgers: [{ ...ledger(), captureLost: 2 }],
    });
    expect(built.masked).toBe(true);
  });

  it("keeps a mask that was there before", async () => {
    const { built, result } = await finalize(row({ mask_sample: true }), snapshotOf(chain));
    expect(built.masked).toBe(true);
    expect(result.mask_sample).toBe(true);
  });

  it("makes a response where the harness left none", async () => {
    const { result } = await finalize(row({ response: undefined }), snapshotOf(chain));
    expect(result.response).toMatchObject({
      object: "response",
      model: "m",
      usage: { input_tokens: 1, output_tokens: 2 },
    });
  });
});

describe("a result with its own ids", () => {
  const own = (generation: number[]) =>
    row({
      response: {
        output: [
          {
            type: "message",
            prompt_token_ids: [1],
            generation_token_ids: generation,
            generation_log_probs: [-0.5],
          },
        ],
      },
    });

  it("D3 is left untouched when the capture agrees or holds nothing", async () => {
    for (const entries of [[call("a", [1], [2], root)], []]) {
      const { built, result } = await finalize(own([2]), snapshotOf(entries));
      expect(result).toEqual(own([2]));
      expect(built.masked).toBe(false);
      expect(await retireRolloutTokenCapture("r", sourceOf(null), built)).toBe(true);
    }
  });

  it("D3 is masked when the capture disagrees", async () => {
    for (const entries of [[call("a", [1], [3], root)], chain]) {
      const { built, result } = await finalize(own([2]), snapshotOf(entries));
      expect(built).toMatchObject({ masked: true, error: { code: "TOKEN_IDS_DISAGREE" } });
      expect(result.response).toEqual(own([2]).response);
      expect(result.mask_sample).toBe(true);
    }
  });

  it("D3 stays unmasked when nothing could be frozen, and is not retired", async () => {
    const result = own([2]);
    const built = await finalizeRolloutTokenCapture(result, {
      freeze: () => Promise.reject(new Error("x")),
    });
    expect(result).toEqual(own([2]));
    expect(await retireRolloutTokenCapture("r", sourceOf(null), built)).toBe(false);
  });
});

describe("retire", () => {
  it("D4 drops exactly the snapshot of an unmasked build", async () => {
    const { built } = await finalize(row(), snapshotOf(chain));
    const source = sourceOf(null);
    expect(await retireRolloutTokenCapture("r", source, built)).toBe(true);
    expect(source.dropped).toEqual([["r", { snapshotId: "s1", version: 3 }]]);
  });

  it("D4 keeps what is masked, failed, of another rollout, changed, or cannot be dropped", async () => {
    const good = (await finalize(row(), snapshotOf(chain))).built;
    const masked = (await finalize(row(), snapshotOf(chain, { incomplete: true }))).built;
    const failed = (await finalize(row(), snapshotOf([]))).built;
    const source = sourceOf(null);
    expect(await retireRolloutTokenCapture("r", source, masked)).toBe(false);
    expect(await retireRolloutTokenCapture("r", source, failed)).toBe(false);
    expect(await retireRolloutTokenCapture("q", source, good)).toBe(false);
    expect(source.dropped).toEqual([]);
    expect(await retireRolloutTokenCapture("r", { drop: async () => false }, good)).toBe(false);
    const broken = { drop: () => Promise.reject(new Error("x")) };
    expect(await retireRolloutTokenCapture("r", broken, good)).toBe(false);
  });
});
