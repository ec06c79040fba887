/** A slow builder, written from the rules and not from the product: strings, all pairs, no index. */
import type { TokenEntry } from "../../../src/capture/index.js";

export interface OracleBuild {
  masked: boolean;
  error: boolean;
  chains: number;
  roots: number;
  quarantined: number;
  unresolved: string[];
  delivered: string[];
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

export function oracleBuild(entries: TokenEntry[]): OracleBuild {
  const calls = entries
    .filter((e) => e.generation_token_ids.length > 0)
    .sort(
      (a, b) =>
        a.prompt_token_ids.length - b.prompt_token_ids.length ||
        (a.model_call_id < b.model_call_id ? -1 : 1),
    );
  const parents = new Map(calls.map((e) => [e, findParents(e, calls)]));
  const parentOf = (e: TokenEntry) => parents.get(e)?.[0];
  const ambiguous = new Set(calls.filter((e) => (parents.get(e)?.length ?? 0) > 1));
  const bad = new Set(ambiguous);
  const unresolved: string[] = [];
  for (const e of calls) {
    const siblings = calls.filter(
      (o) => parentOf(o) === parentOf(e) && key(o.prompt_token_ids) === key(e.prompt_token_ids),
    );
    if (siblings.length < 2) continue;
    const extended = siblings.filter((o) =>
      calls.some((child) => parentOf(child) === o && !ambiguous.has(child)),
    );
    if (extended.length === 0) unresolved.push(e.model_call_id);
    const kept = extended.length > 0 ? extended.includes(e) : siblings[0] === e;
    if (!kept) bad.add(e);
  }
  const path = (e: TokenEntry): TokenEntry[] => {
    const parent = parentOf(e);
    return parent === undefined ? [e] : [...path(parent), e];
  };
  const chains = calls
    .filter((e) => !calls.some((child) => parentOf(child) === e))
    .map(path)
    .filter((chain) => !chain.some((e) => bad.has(e)))
    .sort(([a], [b]) => {
      const early = (a?.created_at ?? 0) - (b?.created_at ?? 0);
      return early || ((a?.model_call_id ?? "") < (b?.model_call_id ?? "") ? -1 : Number(a !== b));
    });
  const delivered = chains[0] ?? [];
  const roots = calls.filter((e) => parentOf(e) === undefined).length;
  const boundary = delivered.some(
    (e) =>
      e.parent_resolution === "UNRESOLVED" ||
      (e.parent_resolution === "RESOLVED" && parentOf(e) === undefined),
  );
  const error = chains.length === 0;
  return {
    masked: error || unresolved.length > 0 || roots !== 1 || chains.length !== 1 || boundary,
    error,
    chains: chains.length,
    roots,
    quarantined: bad.size,
    unresolved: unresolved.sort(),
    delivered: delivered.map((e) => e.model_call_id),
  };
}
