/** A slow builder, written from the rules and not from the product: strings, all pairs, no index. */
import type { TokenEntry } from "../../../src/capture/index.js";

/** What is known beside the records. */
export interface OracleEvidence {
  undelivered?: ReadonlySet<string>;
  /** Call of the final answer. */
  answer?: string | undefined;
}

interface OracleTrajectory {
  owned: string[];
  masked: boolean;
}

export interface OracleBuild {
  masked: boolean;
  error: boolean;
  chains: number;
  roots: number;
  quarantined: number;
  unresolved: string[];
  superseded: string[];
  delivered: string[];
  /** Those of `all`, in order; empty with an error. */
  trajectories: OracleTrajectory[];
}

const key = (ids: Iterable<number>) => [...ids].map((id) => `${String(id)},`).join("");
const cumulative = (e: TokenEntry) => key(e.prompt_token_ids) + key(e.generation_token_ids);

function findParents(entry: TokenEntry, calls: TokenEntry[]): TokenEntry[] {
  const prompt = key(entry.prompt_token_ids);
  if (entry.parent_resolution === "RESOLVED") {
    const named = calls.filter((other) => other.model_call_id === entry.parent_call_id);
    return named.filter((other) => prompt.startsWith(cumulative(other)));
  }
  if (entry.parent_resolution !== undefined) return [];
  const before = calls.filter((other) => other !== entry && prompt.startsWith(cumulative(other)));
  const longest = Math.max(...before.map((other) => cumulative(other).length));
  return before.filter((other) => cumulative(other).length === longest);
}

export function oracleBuild(entries: TokenEntry[], evidence: OracleEvidence = {}): OracleBuild {
  const calls = entries
    .filter((e) => e.generation_token_ids.length > 0)
    .sort(
      (a, b) =>
        a.prompt_token_ids.length - b.prompt_token_ids.length ||
        (a.model_call_id < b.model_call_id ? -1 : 1),
    );
  const linked = calls.every((e) => e.parent_resolution !== undefined);
  const parents = new Map(calls.map((e) => [e, findParents(e, calls)]));
  const parentOf = (e: TokenEntry) => parents.get(e)?.[0];
  const ambiguous = new Set(calls.filter((e) => (parents.get(e)?.length ?? 0) > 1));
  const bad = new Set(ambiguous);
  const unresolved: string[] = [];
  const superseded: string[] = [];
  for (const e of calls) {
    const siblings = calls.filter(
      (o) => parentOf(o) === parentOf(e) && key(o.prompt_token_ids) === key(e.prompt_token_ids),
    );
    if (siblings.length < 2) continue;
    const extended = siblings.filter((o) =>
      calls.some((child) => parentOf(child) === o && !ambiguous.has(child)),
    );
    const answer = siblings.filter((o) => linked && o.model_call_id === evidence.answer);
    const arrived = siblings.filter((o) => evidence.undelivered?.has(o.model_call_id) !== true);
    const stay = [extended, answer, arrived, siblings].find((some) => some.length > 0) ?? [];
    const decided = extended.length > 0 || stay.length === 1;
    if (!decided && stay.includes(e)) unresolved.push(e.model_call_id);
    if (decided ? stay.includes(e) : stay[0] === e) continue;
    const lost = decided || !stay.includes(e);
    if (lost && !ambiguous.has(e)) superseded.push(e.model_call_id);
    bad.add(e);
  }
  const path = (e: TokenEntry): TokenEntry[] => {
    const parent = parentOf(e);
    return parent === undefined ? [e] : [...path(parent), e];
  };
  const chains = calls
    .filter((e) => !calls.some((child) => parentOf(child) === e))
    .map(path)
    .filter((chain) => !chain.some((e) => bad.has(e)));
  const holds = (chain: TokenEntry[]) => chain.some((e) => e.model_call_id === evidence.answer);
  const answering = chains.filter(holds);
  const [delivered = []] = [...(answering.length > 0 ? answering : chains)].sort(([a], [b]) => {
    const early = (a?.created_at ?? 0) - (b?.created_at ?? 0);
    return early || ((a?.model_call_id ?? "") < (b?.model_call_id ?? "") ? -1 : Number(a !== b));
  });
  const roots = calls.filter((e) => parentOf(e) === undefined).length;
  const boundary = ([e]: TokenEntry[]) =>
    e !== undefined &&
    (e.parent_resolution === "UNRESOLVED" ||
      (e.parent_resolution === "RESOLVED" && parentOf(e) === undefined));
  const undecided = (chain: TokenEntry[]) =>
    chain.some((e) => unresolved.includes(e.model_call_id));
  const auxiliary = (chain: TokenEntry[]) => {
    const last = chain.at(-1);
    const isAuxiliary = ["title", "subagent", "compaction"].includes(last?.purpose ?? "main");
    return isAuxiliary && last?.model_call_id !== evidence.answer;
  };
  const error = chains.length === 0;
  const several = unresolved.length > 0 || roots !== 1 || chains.length !== 1;
  const known = entries.some((e) => e.model_call_id === evidence.answer);
  const nowhere = known && answering.length === 0;
  const alone = linked && answering.length === 1;
  return {
    masked:
      error ||
      nowhere ||
      answering.length > 1 ||
      boundary(delivered) ||
      auxiliary(delivered) ||
      (alone ? undecided(delivered.slice(-1)) : several),
    error,
    chains: chains.length,
    roots,
    quarantined: bad.size,
    unresolved: unresolved.sort(),
    superseded: superseded.sort(),
    delivered: delivered.map((e) => e.model_call_id),
    trajectories: shares(),
  };

  function shares(): OracleTrajectory[] {
    const rank = (chain: TokenEntry[]) => {
      const [first, last] = [chain[0], chain.at(-1)];
      return [
        holds(chain) ? "0" : "1",
        undecided(chain.slice(-1)) ? "1" : "0",
        (last?.purpose ?? "main") === "main" ? "0" : "1",
        first?.model_call_id,
        String(last?.prompt_token_ids.length).padStart(9, "0"),
        last?.model_call_id,
      ].join("/");
    };
    const taken = new Set<TokenEntry>();
    return [...chains]
      .sort((a, b) => (rank(a) < rank(b) ? -1 : 1))
      .map((chain, index) => {
        const owned = chain.filter((e) => !taken.has(e));
        for (const e of owned) taken.add(e);
        const purpose = owned[0]?.purpose ?? "main";
        const untrained = index > 0 && (purpose === "title" || purpose === "other");
        const masked =
          nowhere ||
          boundary(chain) ||
          (index === 0 ? auxiliary(owned) : untrained) ||
          (linked ? undecided(owned) : several);
        return { owned: owned.map((e) => e.model_call_id), masked };
      });
  }
}
