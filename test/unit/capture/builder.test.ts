import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  buildTrajectory,
  rebuildResponse,
  type TokenEntry,
  type TrajectoryBuild,
} from "../../../src/capture/index.js";
import { oracleBuild } from "./builder-oracle.js";
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

  it("B5 chooses the chain that holds the final answer and does not unmask", () => {
    const b = build([main, side], { terminal: { messageId: "msg-b" } });
    expect(ids(b)).toEqual(["b"]);
    expect(b.masked).toBe(true);
    expect(b.metrics.terminal_attribution).toEqual({
      method: "message_id",
      call_id: "b",
      reason: "",
      chain: "delivered",
    });
    expect(ids(build([main, side], { terminal: { text: "done" } }))).toEqual(["b"]);
    const more = call("c", [1, 5, 2, 3], [4], continues("b"));
    const longer = build([main, side, more], { terminal: { messageId: "msg-b" } });
    expect(ids(longer)).toEqual(["b", "c"]);
  });

  it("B5 masks a known answer that is in no chain", () => {
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
    "B6 masks a %s call that is left alone",
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
    const twice = [main, { ...side, served_text: "done" }];
    expect(build(twice, { terminal: { text: "done" } }).metrics.terminal_attribution?.reason).toBe(
      "TEXT_AMBIGUOUS",
    );
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

/** Trees over few tokens, so that twins, retries and accidental prefixes are common. */
const tree = fc
  .array(
    fc.record({
      parent: fc.integer({ min: -1, max: 11 }),
      more: fc.array(fc.integer({ min: 0, max: 1 }), { maxLength: 2 }),
      generation: fc.array(fc.integer({ min: 0, max: 1 }), { maxLength: 2 }),
      verdict: fc.constantFrom("none", "none", "right", "right", "wrong", "UNRESOLVED", "ROOT"),
      time: fc.integer({ min: 0, max: 3 }),
    }),
    { minLength: 1, maxLength: 12 },
  )
  .map((plans) => {
    const made: TokenEntry[] = [];
    for (const [index, plan] of plans.entries()) {
      const parent = made[plan.parent];
      const before =
        parent === undefined ? [7] : [...parent.prompt_token_ids, ...parent.generation_token_ids];
      const name = `c${String((index * 7) % 12)}`;
      const linked = plan.verdict === "wrong" ? made[0] : parent;
      const resolution =
        plan.verdict === "none"
          ? {}
          : plan.verdict === "right" || plan.verdict === "wrong"
            ? linked === undefined
              ? root
              : continues(linked.model_call_id)
            : { parent_resolution: plan.verdict };
      const more = { ...resolution, created_at: plan.time } as Partial<TokenEntry>;
      made.push(call(name, [...before, ...plan.more], plan.generation, more));
    }
    return made;
  });

describe("random call trees", () => {
  it("equal an independent slow builder", () => {
    fc.assert(
      fc.property(tree, (entries) => {
        const want = oracleBuild(entries);
        const got = build(entries);
        expect(got.masked).toBe(want.masked);
        expect(got.error !== undefined).toBe(want.error);
        expect(ids(got)).toEqual(want.delivered);
        if (want.error) return;
        expect(got.metrics).toMatchObject({
          chains: want.chains,
          roots: want.roots,
          quarantined_calls: want.quarantined,
        });
        expect([...got.unresolvedRetries].sort()).toEqual(want.unresolved);
      }),
      { numRuns: 3000 },
    );
  });

  it("B3 G5 build the same in any order", () => {
    const shuffled = tree.chain((entries) =>
      fc.tuple(
        fc.constant(entries),
        fc.shuffledSubarray(entries, { minLength: entries.length, maxLength: entries.length }),
      ),
    );
    fc.assert(
      fc.property(shuffled, ([entries, other]) => {
        expect(build(other)).toEqual(build(entries));
      }),
      { numRuns: 1000 },
    );
  });

  it("hold the invariant: an unmasked chain is contiguous and each of its calls was recorded", () => {
    fc.assert(
      fc.property(tree, (entries) => {
        const got = build(entries);
        let before: number[] = [];
        for (const entry of got.chain) {
          expect(entries).toContain(entry);
          expect([...entry.prompt_token_ids].slice(0, before.length)).toEqual(before);
          before = [...entry.prompt_token_ids, ...entry.generation_token_ids];
        }
      }),
    );
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
