/** Random call trees over few tokens, so that twins, retries and accidental prefixes are common. */
import fc from "fast-check";
import type { TokenEntry } from "../../../src/capture/index.js";
import { call, continues, root } from "./entries.js";

/** Records of one rollout, and what is known beside them. */
export interface CallTree {
  readonly entries: TokenEntry[];
  readonly undelivered: string[];
  /** Call of the final answer. */
  readonly answer: string | undefined;
}

const plan = fc.record({
  /** Index of an earlier call; none begins a tree, as a title call or a compacted history does. */
  parent: fc.integer({ min: -2, max: 11 }),
  more: fc.array(fc.integer({ min: 0, max: 1 }), { maxLength: 2 }),
  generation: fc.array(fc.integer({ min: 0, max: 1 }), { maxLength: 2 }),
  verdict: fc.constantFrom("right", "right", "right", "wrong", "ROOT", "UNRESOLVED", "none"),
  time: fc.integer({ min: 0, max: 2 }),
  purpose: fc.constantFrom("main", "main", "main", "subagent", "compaction", "title", "other"),
  /** The harness sends the request of the call before it again. */
  retries: fc.boolean(),
  undelivered: fc.boolean(),
});

/** `none`: no call has a verdict. `linked`: every call has one. `mixed`: some have. */
export function callTrees(verdicts: "none" | "linked" | "mixed"): fc.Arbitrary<CallTree> {
  const plans = fc.array(plan, { minLength: 1, maxLength: 12 });
  return fc.tuple(plans, fc.integer({ min: -3, max: 11 })).map(([calls, answer]) => {
    const made: TokenEntry[] = [];
    const undelivered: string[] = [];
    for (const [index, one] of calls.entries()) {
      const again = one.retries ? made.at(-1) : undefined;
      const parent = made[one.parent];
      const joined =
        parent === undefined
          ? [7, ...one.more]
          : [...parent.prompt_token_ids, ...parent.generation_token_ids, ...one.more];
      const id = `c${String((index * 7) % 12)}`;
      const more = {
        ...(again === undefined
          ? verdictOf(one.verdict, verdicts, parent, made[0])
          : sameAs(again)),
        created_at: one.time,
        purpose: one.purpose,
        served_message_id: `msg-${id}`,
      } as Partial<TokenEntry>;
      made.push(call(id, again?.prompt_token_ids ?? joined, one.generation, more));
      if (one.undelivered) undelivered.push(id);
    }
    return { entries: made, undelivered, answer: made[answer]?.model_call_id };
  });
}

function verdictOf(
  verdict: string,
  verdicts: "none" | "linked" | "mixed",
  parent: TokenEntry | undefined,
  first: TokenEntry | undefined,
): Partial<TokenEntry> {
  if (verdicts === "none" || (verdict === "none" && verdicts === "mixed")) return {};
  if (verdict === "ROOT" || verdict === "UNRESOLVED") return { parent_resolution: verdict };
  const named = verdict === "wrong" ? first : parent;
  return named === undefined ? root : continues(named.model_call_id);
}

function sameAs(entry: TokenEntry): Partial<TokenEntry> {
  const { parent_resolution, parent_call_id } = entry;
  return {
    ...(parent_resolution === undefined ? {} : { parent_resolution }),
    ...(parent_call_id === undefined ? {} : { parent_call_id }),
  };
}
