import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  type BuildOptions,
  buildTrajectory,
  type TokenEntry,
  type TrajectoryBuild,
} from "../../../src/capture/index.js";
import { oracleBuild } from "./builder-oracle.js";
import { type CallTree, callTrees } from "./call-trees.js";

const KINDS = ["none", "linked", "mixed"] as const;

function build(tree: CallTree, more: Partial<BuildOptions> = {}): TrajectoryBuild {
  return buildTrajectory(tree.entries, {
    rolloutId: "r",
    undeliveredCallIds: tree.undelivered,
    ...(tree.answer === undefined ? {} : { terminal: { messageId: `msg-${tree.answer}` } }),
    ...more,
  });
}

const oracle = (tree: CallTree) =>
  oracleBuild(tree.entries, { undelivered: new Set(tree.undelivered), answer: tree.answer });
const idsOf = (chain: readonly TokenEntry[]) => chain.map((entry) => entry.model_call_id);

/** Every trajectory of an `all` build. */
const trajectories = (all: TrajectoryBuild) =>
  all.error !== undefined
    ? []
    : [
        { owned: idsOf(all.chain), masked: all.masked },
        ...all.others.map((o) => ({ owned: idsOf(o.chain), masked: o.maskReasons.length > 0 })),
      ];

/** What may be trained: each unmasked trajectory's generated tokens with all that stands before them. */
const trainable = (all: TrajectoryBuild) =>
  trajectories(all)
    .filter((one) => !one.masked)
    .flatMap((one) => one.owned)
    .sort();

describe.each(KINDS)("random call trees, verdicts: %s", (kind) => {
  it("B2 B5 G7 G8 equal an independent slow builder", () => {
    fc.assert(
      fc.property(callTrees(kind), (tree) => {
        const want = oracle(tree);
        const got = build(tree);
        expect(got.masked).toBe(want.masked);
        expect(got.error !== undefined).toBe(want.error);
        expect(idsOf(got.chain)).toEqual(want.delivered);
        if (want.error) return;
        expect(got.metrics).toMatchObject({
          chains: want.chains,
          roots: want.roots,
          quarantined_calls: want.quarantined,
          superseded_calls: want.superseded.length,
        });
        expect([...got.unresolvedRetries].sort()).toEqual(want.unresolved);
      }),
      { numRuns: 2000 },
    );
  });

  it("B6 T1 T2 share the calls of all chains as the slow builder does", () => {
    fc.assert(
      fc.property(callTrees(kind), (tree) => {
        const want = oracle(tree);
        const got = build(tree, { delivery: "all" });
        expect(trajectories(got)).toEqual(want.error ? [] : want.trajectories);
      }),
      { numRuns: 2000 },
    );
  });

  it("B6 T1 own each delivered call exactly once, and never a quarantined one", () => {
    fc.assert(
      fc.property(callTrees(kind), (tree) => {
        const all = build(tree, { delivery: "all" });
        const owned = trajectories(all).flatMap((one) => one.owned);
        expect(new Set(owned).size).toBe(owned.length);
        expect(owned.length).toBeLessThanOrEqual(
          all.metrics.n_calls - (all.metrics.quarantined_calls ?? 0),
        );
      }),
      { numRuns: 1000 },
    );
  });

  it("hold the invariant: every chain is contiguous, whole and made of recorded calls", () => {
    fc.assert(
      fc.property(callTrees(kind), (tree) => {
        for (const delivery of ["main", "all"] as const) {
          const got = build(tree, { delivery });
          for (const chain of [got.chain, ...got.others.map((other) => other.chain)]) {
            let before: number[] = [];
            for (const entry of chain) {
              expect(tree.entries).toContain(entry);
              expect([...entry.prompt_token_ids].slice(0, before.length)).toEqual(before);
              before = [...entry.prompt_token_ids, ...entry.generation_token_ids];
            }
          }
        }
      }),
    );
  });

  it("B3 G5 build the same in any order of capture", () => {
    const shuffled = callTrees(kind).chain((tree) =>
      fc.tuple(
        fc.constant(tree),
        fc.shuffledSubarray(tree.entries, {
          minLength: tree.entries.length,
          maxLength: tree.entries.length,
        }),
      ),
    );
    fc.assert(
      fc.property(shuffled, ([tree, entries]) => {
        for (const delivery of ["main", "all"] as const)
          expect(build({ ...tree, entries }, { delivery })).toEqual(build(tree, { delivery }));
      }),
      { numRuns: 1000 },
    );
  });

  it("B4 times of capture change nothing that is trained", () => {
    const timed = fc.tuple(
      callTrees(kind),
      fc.array(fc.integer({ min: 0, max: 3 }), { minLength: 12, maxLength: 12 }),
    );
    fc.assert(
      fc.property(timed, ([tree, times]) => {
        const entries = tree.entries.map((entry, index) => ({
          ...entry,
          created_at: times[index] ?? 0,
        }));
        const other = { ...tree, entries };
        const [a, b] = [build(tree), build(other)];
        expect(b.masked).toBe(a.masked);
        if (!a.masked) expect(idsOf(b.chain)).toEqual(idsOf(a.chain));
        expect(trainable(build(other, { delivery: "all" }))).toEqual(
          trainable(build(tree, { delivery: "all" })),
        );
      }),
      { numRuns: 1000 },
    );
  });
});

describe("evidence", () => {
  it("G7 delivery knowledge never adds a call to what is trained but those that it decides among", () => {
    fc.assert(
      fc.property(callTrees("linked"), (tree) => {
        const blind = build({ ...tree, undelivered: [] });
        const seen = build(tree);
        // It may decide a retry, so it may unmask one; it never keeps an undelivered call that blindness would not.
        const kept = idsOf(seen.chain).filter((id) => tree.undelivered.includes(id));
        const retried = new Set(blind.unresolvedRetries);
        for (const id of kept) expect(retried.has(id) && !seen.masked && blind.masked).toBe(false);
      }),
      { numRuns: 2000 },
    );
  });
});
