/**
 * Links the recorded calls of one rollout into trees. It knows tokens and verdicts, not masks or output items.
 *
 * G1. A RESOLVED link is followed only when the child's prompt starts with the parent's prompt and generation; else
 *     it is a boundary (`LINK_MISMATCH`, `LINK_PARENT_MISSING`), never trusted.
 * G2. An UNRESOLVED call, and a ROOT, begins a tree; only a record without a verdict is matched by tokens.
 * G3. A call that two identical sequences could have preceded is quarantined, with all that follows it.
 * G4. Of siblings with one prompt, the extended ones stay; when none is extended, the retry is unresolved.
 * G5. The order of the entries and their times change nothing here.
 * G6. Linear in tokens (sorting the calls apart), no recursion.
 * G7. An answer that did not reach the harness excludes its call from a retry that nothing else decides. It never
 *     keeps one: when no answer arrived, the retry is unresolved.
 * G8. The call of the harness's final answer decides a retry that no sibling extends. Only among calls that all have a
 *     verdict: else a call of another origin could hide between them.
 */
import { createHash } from "node:crypto";
import { PrefixIndex } from "./prefix-index.js";
import type { TokenEntry } from "./records.js";
import { startsWith } from "./token-views.js";

/** A call with at least one generated token, in its tree. */
export class CallNode {
  readonly entry: TokenEntry;
  parent: CallNode | null = null;
  root: CallNode = this;
  childCount = 0;
  /** A child that is not quarantined continues it. */
  extended = false;
  quarantined = false;
  /** Lost retry: a sibling stays in its place. */
  superseded = false;
  /** Retry that nothing decides. */
  undecided = false;
  /** It or a call above it is quarantined. */
  lost = false;
  /** Why what it continues is not known. */
  boundary: string | undefined;

  constructor(entry: TokenEntry) {
    this.entry = entry;
  }
}

export interface CallGraph {
  /** By prompt length, then call id: a parent comes before its children. */
  readonly nodes: readonly CallNode[];
  readonly roots: readonly CallNode[];
  /** Calls that end a chain without a quarantined call in it. */
  readonly leaves: readonly CallNode[];
  readonly unresolvedRetries: readonly string[];
  /** Every call has a verdict of its own. */
  readonly linked: boolean;
}

/** What is known of the calls beside their records. */
export interface CallEvidence {
  /** Calls whose answer did not fully reach the harness. */
  readonly undelivered?: ReadonlySet<string>;
  /** The call that served the harness's final answer. */
  readonly finalCallId?: string | null;
}

/** Orders ids by code unit, as every process does. */
export function compareIds(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

/** Contract: call ids are unique and every entry has generated tokens. */
export function linkCalls(entries: readonly TokenEntry[], evidence: CallEvidence = {}): CallGraph {
  const nodes = entries.map((entry) => new CallNode(entry)).sort(byPromptThenId);
  attachParents(nodes);
  const linked = entries.every((entry) => entry.parent_resolution !== undefined);
  settleRetries(nodes, linked ? evidence : { ...evidence, finalCallId: null });
  for (const node of nodes) {
    node.root = node.parent?.root ?? node;
    node.lost = node.quarantined || (node.parent?.lost ?? false);
  }
  return {
    nodes,
    roots: nodes.filter((node) => node.parent === null),
    leaves: nodes.filter((node) => node.childCount === 0 && !node.lost),
    unresolvedRetries: nodes
      .filter((node) => node.undecided)
      .map((node) => node.entry.model_call_id),
    linked,
  };
}

/** Root to `leaf`. */
export function chainOf(leaf: CallNode): CallNode[] {
  const chain: CallNode[] = [];
  for (let node: CallNode | null = leaf; node !== null; node = node.parent) chain.push(node);
  return chain.reverse();
}

function byPromptThenId(a: CallNode, b: CallNode): number {
  return (
    a.entry.prompt_token_ids.length - b.entry.prompt_token_ids.length ||
    compareIds(a.entry.model_call_id, b.entry.model_call_id)
  );
}

function attachParents(nodes: readonly CallNode[]): void {
  const byId = new Map(nodes.map((node) => [node.entry.model_call_id, node]));
  const needsTokens = nodes.some((node) => node.entry.parent_resolution === undefined);
  const index = needsTokens ? new PrefixIndex<CallNode>() : undefined;
  for (const node of nodes) {
    const { prompt_token_ids: prompt, generation_token_ids: generation } = node.entry;
    // Every call is indexed: one without a verdict may continue one that has it.
    const matches = index?.matchThenAdd(prompt, generation, node) ?? [];
    if (node.entry.parent_resolution === undefined) {
      node.parent = matches[0] ?? null;
      node.quarantined = matches.length > 1;
    } else {
      followVerdict(node, byId);
    }
    if (node.parent !== null) {
      node.parent.childCount += 1;
      if (!node.quarantined) node.parent.extended = true;
    }
  }
}

function followVerdict(node: CallNode, byId: ReadonlyMap<string, CallNode>): void {
  const { entry } = node;
  if (entry.parent_resolution === "ROOT") return;
  if (entry.parent_resolution === "UNRESOLVED") {
    node.boundary = entry.parent_resolution_reason ?? "UNRESOLVED";
    return;
  }
  const parent = byId.get(entry.parent_call_id ?? "");
  if (parent === undefined) {
    node.boundary = "LINK_PARENT_MISSING";
    return;
  }
  const { prompt_token_ids: prompt, generation_token_ids: generation } = parent.entry;
  // A parent's prompt is shorter than its child's, so links that pass cannot form a cycle.
  if (startsWith(entry.prompt_token_ids, prompt, generation)) node.parent = parent;
  else node.boundary = "LINK_MISMATCH";
}

/** Decides among calls that share parent and prompt. */
function settleRetries(nodes: readonly CallNode[], evidence: CallEvidence): void {
  for (const siblings of retryGroups(nodes)) {
    const staying = survivors(siblings, evidence);
    const settled = staying.length === 1 || staying.some((node) => node.extended);
    const stays = new Set(staying);
    for (const node of siblings) {
      node.undecided = !settled && stays.has(node);
      // Nodes are in id order within a group: of an undecided retry the smallest id is shown.
      if (settled ? stays.has(node) : node === staying[0]) continue;
      if (!node.quarantined) node.superseded = !node.undecided;
      node.quarantined = true;
    }
  }
}

/** Those of a retry that may stay, by the strongest evidence there is: several only when all of it fits them all. */
function survivors(siblings: readonly CallNode[], evidence: CallEvidence): readonly CallNode[] {
  const { finalCallId, undelivered } = evidence;
  const extended = siblings.filter((node) => node.extended);
  if (extended.length > 0) return extended; // G4
  const final = siblings.filter((node) => node.entry.model_call_id === finalCallId);
  if (final.length > 0) return final; // G8
  const arrived = siblings.filter((node) => undelivered?.has(node.entry.model_call_id) !== true);
  return arrived.length > 0 ? arrived : siblings; // G7
}

/** Groups of at least two calls with one parent (roots count as siblings) and one prompt. */
function retryGroups(nodes: readonly CallNode[]): CallNode[][] {
  const bySize = groupBy(nodes, (node) => {
    const parent = node.parent === null ? "" : node.parent.entry.model_call_id;
    return `${String(node.entry.prompt_token_ids.length)} ${parent}`;
  });
  return bySize
    .filter((group) => group.length > 1)
    .flatMap((group) => groupBy(group, (node) => digestOf(node.entry.prompt_token_ids)))
    .filter((group) => group.length > 1);
}

function groupBy<T>(values: readonly T[], key: (value: T) => string): T[][] {
  const groups = new Map<string, T[]>();
  for (const value of values) {
    const name = key(value);
    const group = groups.get(name);
    if (group === undefined) groups.set(name, [value]);
    else group.push(value);
  }
  return [...groups.values()];
}

function digestOf(ids: Int32Array): string {
  const bytes = new Uint8Array(ids.buffer, ids.byteOffset, ids.byteLength);
  return createHash("sha256").update(bytes).digest("hex");
}
