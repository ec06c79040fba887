import { describe, expect, it } from "vitest";
import {
  buildTrajectory,
  rebuildResponse,
  type TokenEntry,
  type TrajectoryBuild,
} from "../../../src/capture/index.js";
import { call, continues, root } from "./entries.js";

const rolloutId = "r";
const build = (entries: TokenEntry[], more = {}) =>
  buildTrajectory(entries, { rolloutId, ...more });
const ids = (b: TrajectoryBuild) => b.chain.map((entry) => entry.model_call_id);
const codes = (b: TrajectoryBuild) => b.metrics.mask_reasons.map((reason) => reason.code);

describe("chains by recorded links", () => {
  const two = [call("a", [1], [2], root), call("b", [1, 2, 3], [4], continues("a"))];

  it("follows RESOLVED links into one unmasked chain", () => {
    const b = build(two);
    expect(ids(b)).toEqual(["a", "b"]);
    expect(b.masked).toBe(false);
    expect(b.metrics).toMatchObject({ n_calls: 2, chains: 1, roots: 1, delivered_fraction: 1 });
  });

  it("G1 does not trust a link whose tokens do not fit", () => {
    const b = build([call("a", [1], [2], root), call("b", [1, 9, 3], [4], continues("a"))]);
    expect(b.masked).toBe(true);
    expect(b.metrics).toMatchObject({ roots: 2, unresolved_calls: 1 });
  });

  it("G1 names the boundary of the chain that is shown", () => {
    const b = build([call("b", [1, 9, 3], [4], continues("gone"))]);
    expect(b.metrics.mask_reasons).toEqual([
      { code: "UNRESOLVED_PARENT", detail: "b: LINK_PARENT_MISSING" },
    ]);
  });

  it("G1 does not merge a re-tokenised copy: G=[fish, ing] came back as [fishing] (F7)", () => {
    const merged = [call("a", [1], [10, 11], root), call("b", [1, 12, 3], [4], continues("a"))];
    expect(build(merged).masked).toBe(true);
    expect(build(merged.map(({ parent_resolution: _, ...entry }) => entry)).masked).toBe(true);
  });

  it("G1 survives links that form a cycle", () => {
    const b = build([call("a", [1], [2], continues("b")), call("b", [1, 2], [3], continues("a"))]);
    expect(b.masked).toBe(true);
  });

  it("G2 never attaches an UNRESOLVED call, whatever its tokens", () => {
    const lost = {
      parent_resolution: "UNRESOLVED",
      parent_resolution_reason: "ECHO_CHANGED",
    } as const;
    const b = build([call("a", [1], [2], root), call("b", [1, 2, 3], [4], lost)]);
    expect(b.metrics).toMatchObject({ roots: 2, chains: 2, unresolved_calls: 1 });
    const alone = build([call("a", [1], [2], lost)]);
    expect(alone.metrics.mask_reasons).toEqual([
      { code: "UNRESOLVED_PARENT", detail: "a: ECHO_CHANGED" },
    ]);
  });

  it("G2 matches a record without a verdict by its tokens, also below one with a verdict", () => {
    const b = build([call("a", [1], [2], root), call("b", [1, 2, 3], [4])]);
    expect(ids(b)).toEqual(["a", "b"]);
  });

  it("G3 quarantines what two identical calls could have preceded, with its subtree", () => {
    const twins = [call("a", [1], [2]), call("b", [1], [2]), call("c", [5], [6])];
    const b = build([...twins, call("d", [1, 2, 3], [4]), call("e", [1, 2, 3, 4, 5], [6])]);
    expect(ids(b)).toEqual(["c"]);
    expect(b.masked).toBe(true);
  });

  it("G3 a link decides between identical calls; the other is superseded", () => {
    const b = build([
      call("p", [1], [2], root),
      call("a", [1, 2, 3], [4], continues("p")),
      call("b", [1, 2, 3], [4], continues("p")),
      call("c", [1, 2, 3, 4, 5], [6], continues("a")),
    ]);
    expect(ids(b)).toEqual(["p", "a", "c"]);
    expect(b.masked).toBe(false);
    expect(b.metrics).toMatchObject({ superseded_calls: 1, quarantined_calls: 1 });
  });

  it("G4 keeps the extended attempt of a retried turn (F4, F5)", () => {
    const b = build([
      call("p", [1], [2], root),
      call("a", [1, 2, 3], [4], continues("p")),
      call("b", [1, 2, 3], [7, 8], continues("p")),
      call("c", [1, 2, 3, 7, 8, 9], [6], continues("b")),
    ]);
    expect(ids(b)).toEqual(["p", "b", "c"]);
    expect(b.masked).toBe(false);
    expect(b.metrics).toMatchObject({ superseded_calls: 1, delivered_fraction: 0.8 });
  });

  it("G4 keeps the extended attempt of a retried first turn, and masks for the second root (F2)", () => {
    const retry = [call("a", [1], [2], root), call("b", [1], [3], root)];
    const b = build([...retry, call("c", [1, 3, 4], [5], continues("b"))]);
    expect(ids(b)).toEqual(["b", "c"]);
    expect(codes(b)).toEqual(["MULTIPLE_ROOTS"]);
  });

  it("G4 masks a retried last turn", () => {
    const b = build([...two, call("c", [1, 2, 3], [5], continues("a"))]);
    expect(codes(b)).toEqual(["UNRESOLVED_RETRY"]);
    expect(b.unresolvedRetries).toEqual(["b", "c"]);
  });

  it("excludes and counts empty generations", () => {
    const b = build([...two, call("z", [1, 2, 3, 4], [], continues("b"))]);
    expect(b.metrics).toMatchObject({ n_calls: 3, empty_generation_calls: 1, chains: 1 });
    expect(build([call("z", [1], [])]).error?.code).toBe("NO_SAFE_CHAIN");
  });

  it("reads an end-of-turn id in a tool result as any other id (F8)", () => {
    const b = build([
      call("a", [1], [2, 99], root),
      call("b", [1, 2, 99, 99, 5, 99], [4], continues("a")),
    ]);
    expect(b.masked).toBe(false);
  });
});

describe("masks", () => {
  const one = [call("a", [1], [2], root)];

  it("B1 refuses records that cannot be chained, without a throw", () => {
    expect(build([]).error?.code).toBe("NO_ENTRIES");
    expect(build([call("a", [1], [2], { schema_version: 2 })]).error?.code).toBe("SCHEMA_TOO_NEW");
    expect(build([call("a", [1], [2], { rollout_id: "s" })]).error?.code).toBe("RECORD_INVALID");
    const short = call("a", [1], [2, 3], { generation_log_probs: Float64Array.of(-1) });
    expect(build([short]).error?.code).toBe("RECORD_INVALID");
    const nan = call("a", [1], [2], { generation_log_probs: Float64Array.of(Number.NaN) });
    expect(build([nan]).error?.code).toBe("RECORD_INVALID");
    expect(build([call("a", [1], [2]), call("a", [1], [3])]).error?.code).toBe("RECORD_CONFLICT");
    for (const b of [build([]), build([short])]) {
      expect(b.masked).toBe(true);
      expect(b.metrics.mask_reasons).toHaveLength(1);
      expect(rebuildResponse(b)).toBeNull();
    }
  });

  it("takes a repeated record once", () => {
    const b = build([...one, call("a", [1], [2], root)]);
    expect(b.masked).toBe(false);
    expect(b.metrics.n_calls).toBe(1);
    const unlike = call("a", [1], [2], { ...root, output_items: [] });
    expect(build([...one, unlike]).error?.code).toBe("RECORD_CONFLICT");
  });

  it("B2 names every reason", () => {
    const extraMaskReasons = [{ code: "LEDGER_MISMATCH" }];
    const b = build(one, { incomplete: true, incompleteReasons: ["LOST_CALL"], extraMaskReasons });
    expect(b.metrics.mask_reasons).toEqual([
      { code: "LEDGER_MISMATCH" },
      { code: "CAPTURE_INCOMPLETE", detail: "LOST_CALL" },
    ]);
    expect(b.metrics.capture_incomplete).toBe(true);
    expect(codes(build([...one, call("b", [3], [4], root)]))).toEqual([
      "MULTIPLE_ROOTS",
      "MULTIPLE_CHAINS",
    ]);
  });

  it("failed and aborted calls are counted and mask nothing", () => {
    const b = build(one, { failedCalls: 3, abortedCalls: 2 });
    expect(b.metrics).toMatchObject({ failed_calls: 3, aborted_calls: 2, mask_reasons: [] });
    expect(b.masked).toBe(false);
  });

  it("B4 shows the chain with the earliest root, then the smallest id", () => {
    const early = call("z", [3], [4], { created_at: 1 });
    expect(ids(build([call("a", [1], [2]), early]))).toEqual(["z"]);
    expect(ids(build([call("b", [1], [2]), call("a", [3], [4])]))).toEqual(["a"]);
  });
});

describe("terminal", () => {
  const main = call("b", [1, 5], [2], { ...root, served_message_id: "msg-b", served_text: "done" });
  const side = call("a", [9], [2], { ...root, served_message_id: "msg-a", served_text: "title" });
  const more = call("c", [1, 5, 2, 3], [4], continues("b"));

  it("B5 lets the chain of the final answer stand alone", () => {
    const b = build([main, side], { terminal: { messageId: "msg-b" } });
    expect(ids(b)).toEqual(["b"]);
    expect(b.masked).toBe(false);
    expect(b.metrics).toMatchObject({ chains: 2, roots: 2, delivered_fraction: 0.5 });
    expect(b.metrics.terminal_attribution).toEqual({
      method: "message_id",
      call_id: "b",
      reason: "",
      chain: "delivered",
    });
    expect(ids(build([main, side], { terminal: { text: "done" } }))).toEqual(["b"]);
    const longer = build([main, side, more], { terminal: { messageId: "msg-b" } });
    expect(ids(longer)).toEqual(["b", "c"]);
    expect(longer.masked).toBe(false);
  });

  it("B5 needs a verdict of every call: without lineage the same tree is masked", () => {
    const { parent_resolution: _, ...bare } = side;
    const b = build([main, bare], { terminal: { messageId: "msg-b" } });
    expect(ids(b)).toEqual(["b"]);
    expect(codes(b)).toEqual(["MULTIPLE_ROOTS", "MULTIPLE_CHAINS"]);
  });

  it("B5 still masks a boundary in the chain, a lost call and a caller's reason", () => {
    const torn = { ...main, parent_resolution: "UNRESOLVED" as const };
    const terminal = { messageId: "msg-b" };
    expect(codes(build([torn, side], { terminal }))).toEqual(["UNRESOLVED_PARENT"]);
    expect(codes(build([main, side], { terminal, incomplete: true }))).toEqual([
      "CAPTURE_INCOMPLETE",
    ]);
    expect(
      codes(build([main, side], { terminal, extraMaskReasons: [{ code: "WORKER_DIED" }] })),
    ).toEqual(["WORKER_DIED"]);
  });

  it("B5 does not care for a boundary or a retry in another chain", () => {
    const twin = { ...side, model_call_id: "d" };
    const torn = { ...call("e", [7], [8]), parent_resolution: "UNRESOLVED" as const };
    const b = build([main, side, twin, torn], { terminal: { messageId: "msg-b" } });
    expect(b.masked).toBe(false);
    expect(b.unresolvedRetries).toEqual(["a", "d"]);
    expect(b.metrics).toMatchObject({ unresolved_calls: 1 });
  });

  it("B5 masks a final answer that two chains hold", () => {
    const fork = call("d", [1, 5, 2, 8], [4], continues("b"));
    const b = build([main, more, fork], { terminal: { messageId: "msg-b" } });
    expect(codes(b)).toEqual(["TERMINAL_IN_SEVERAL_CHAINS", "MULTIPLE_CHAINS"]);
  });

  it("masks a known answer that is in no chain", () => {
    const b = build(
      [
        call("p", [1], [2], root),
        call("q", [1, 2, 3], [4], { ...continues("p"), served_message_id: "lost" }),
        call("s", [1, 2, 3], [5], continues("p")),
        call("t", [1, 2, 3, 5, 6], [7], continues("s")),
      ],
      { terminal: { messageId: "lost" } },
    );
    expect(b.metrics.mask_reasons).toEqual([{ code: "TERMINAL_NOT_DELIVERED", detail: "q" }]);
    expect(b.metrics.terminal_attribution?.chain).toBe("");
  });

  it.each(["title", "subagent", "compaction"])(
    "B7 masks a %s call that is left alone",
    (purpose) => {
      const alone = { ...side, purpose };
      const codes = (terminal?: object, entries: TokenEntry[] = [alone]) =>
        build(entries, { terminal }).metrics.mask_reasons.map(({ code }) => code);
      expect(codes()).toEqual(["AUXILIARY_CHAIN"]);
      expect(codes({ text: "other" })).toEqual(["AUXILIARY_CHAIN"]);
      expect(codes({ messageId: "msg-a" })).toEqual([]);
      const tail = call("c", [1, 5, 2, 3], [4], { ...continues("b"), purpose });
      expect(codes({ messageId: "msg-b" }, [main, tail])).toEqual(["AUXILIARY_CHAIN"]);
      expect(codes({ messageId: "msg-b" }, [{ ...main, purpose: "main" }])).toEqual([]);
    },
  );

  it("leaves an unattributed single chain unmasked and says why", () => {
    const reason = (terminal?: object) =>
      build([main], { terminal }).metrics.terminal_attribution?.reason;
    expect(reason()).toBe("NOT_GIVEN");
    expect(reason({ messageId: "other" })).toBe("MESSAGE_ID_NOT_SERVED");
    expect(reason({ text: "other" })).toBe("TEXT_NOT_SERVED");
    expect(build([main], { terminal: { text: "other" } }).masked).toBe(false);
  });

  it("A1 takes a text that a harness cut the blanks of, and none that two calls served", () => {
    const said = (text: string) => ({ ...main, served_text: text });
    const method = (...calls: TokenEntry[]) =>
      build(calls, { terminal: { text: "done" } }).metrics.terminal_attribution;
    expect(method(said("\ndone \n"), side)?.call_id).toBe("b");
    for (const text of ["done", " done"])
      expect(method(said("done"), { ...side, served_text: text })?.reason).toBe("TEXT_AMBIGUOUS");
  });
});

describe("retries of the last turn", () => {
  const answered = (id: string, generation: number[]) =>
    call(id, [1, 2, 3], generation, { ...continues("a"), served_message_id: `msg-${id}` });
  const calls = [call("a", [1], [2], root), answered("b", [4]), answered("c", [5])];

  it("G7 an answer that did not arrive supersedes its call", () => {
    const b = build(calls, { undeliveredCallIds: ["b"] });
    expect(ids(b)).toEqual(["a", "c"]);
    expect(b.masked).toBe(false);
    expect(b.metrics).toMatchObject({ superseded_calls: 1, quarantined_calls: 1, n_calls: 3 });
  });

  it("G7 two identical requests are two samples when both arrived, and neither is kept when none did", () => {
    for (const undeliveredCallIds of [[], ["b", "c"]]) {
      const b = build(calls, { undeliveredCallIds });
      expect(codes(b)).toEqual(["UNRESOLVED_RETRY"]);
      expect(b.unresolvedRetries).toEqual(["b", "c"]);
    }
  });

  it("G7 delivery keeps no call: what was extended stays, and an only call is not excluded", () => {
    const next = call("d", [1, 2, 3, 4, 9], [6], continues("b"));
    expect(ids(build([...calls, next], { undeliveredCallIds: ["b"] }))).toEqual(["a", "b", "d"]);
    const alone = build(calls.slice(0, 2), { undeliveredCallIds: ["b"] });
    expect(ids(alone)).toEqual(["a", "b"]);
    expect(alone.masked).toBe(false);
  });

  it("G8 the final answer decides", () => {
    const b = build(calls, { terminal: { messageId: "msg-c" } });
    expect(ids(b)).toEqual(["a", "c"]);
    expect(b.masked).toBe(false);
    const later = [...calls, answered("d", [6])];
    expect(ids(build(later, { terminal: { messageId: "msg-c" } }))).toEqual(["a", "c"]);
  });

  it("G8 not when a call has no verdict", () => {
    const { parent_resolution: _, ...bare } = call("z", [8], [9]);
    expect(codes(build([...calls, bare], { terminal: { messageId: "msg-c" } }))).toContain(
      "UNRESOLVED_RETRY",
    );
  });

  it("a retried first turn is one turn: its superseded root is no root of the answer's chain", () => {
    const first = [call("a", [1], [2], root), call("b", [1], [3], root)];
    const end = call("c", [1, 3, 4], [5], { ...continues("b"), served_message_id: "m" });
    const b = build([...first, end], { terminal: { messageId: "m" } });
    expect(ids(b)).toEqual(["b", "c"]);
    expect(b.masked).toBe(false);
    expect(b.metrics).toMatchObject({ superseded_calls: 1, delivered_fraction: 0.6667 });
  });
});

describe("projection", () => {
  it("P1 gives each call one carrier whose prompt is everything before it", () => {
    const items = [{ type: "message" }, { type: "function_call" }];
    const b = build([
      call("a", [1], [2], { ...root, output_items: items, token_item_index: 1 }),
      call("b", [1, 2, 3], [4], { ...continues("a"), output_items: [], token_item_index: null }),
    ]);
    const output = rebuildResponse(b)?.output ?? [];
    expect(output.map((item) => item["prompt_token_ids"])).toEqual([undefined, [1], [1, 2, 3]]);
    expect(output[2]).toMatchObject({ type: "message", _ng_model_call: { model_call_id: "b" } });
  });

  it("P2 removes arrays that a record left on an item that is not the carrier", () => {
    const stale = { type: "message", generation_token_ids: [7], generation_log_probs: [-1] };
    const items = [stale, { type: "function_call" }];
    const b = build([call("a", [1], [2], { ...root, output_items: items, token_item_index: 1 })]);
    expect(rebuildResponse(b)?.output[0]).toEqual({ type: "message" });
  });

  it("carries versions, mode and sampling when the record has them", () => {
    const more = {
      ...root,
      policy_version_start: 1,
      policy_version_end: 2,
      logprobs_mode: "raw" as const,
    };
    const b = build([call("a", [1], [2], { ...more, sampling: { temperature: 1 } })]);
    expect(rebuildResponse(b)?.output[0]).toMatchObject({
      policy_version_start: 1,
      policy_version_end: 2,
      logprobs_mode: "raw",
      sampling: { temperature: 1 },
    });
    expect(b.metrics.policy_version).toEqual({ min: 1, max: 2 });
  });
});

describe("long chains", () => {
  const buffer = Int32Array.from({ length: 60_000 }, (_, index) => index % 977);
  const chain = (count: number, linked: boolean) =>
    Array.from({ length: count }, (_, index) => {
      const name = (n: number) => `c${String(n).padStart(6, "0")}`;
      const at = 1 + index * 2;
      const verdict = index === 0 ? root : continues(name(index - 1));
      const generation = buffer.subarray(at, at + 1);
      return call(name(index), buffer.subarray(0, at), generation, linked ? verdict : {});
    });

  it("G6 chains 20,000 linked calls without recursion", () => {
    const b = build(chain(20_000, true));
    expect(b.chain).toHaveLength(20_000);
    expect(b.masked).toBe(false);
  });

  it("G6 X2 chains 20,000 calls by their tokens", () => {
    const b = build(chain(20_000, false).toReversed());
    expect(b.chain).toHaveLength(20_000);
    expect(b.masked).toBe(false);
  });
});
