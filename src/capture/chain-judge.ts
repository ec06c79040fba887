/**
 * Which chain of a tree is shown, and what masks each. Numbers are the builder's.
 */
import type { BuildOptions, SideTrajectory } from "./build.js";
import { type CallGraph, type CallNode, chainOf, compareIds } from "./call-graph.js";
import type { MaskReason } from "./metrics.js";
import { type CallPurpose, TRAINED_PURPOSES } from "./purpose.js";
import { nodesBelow, shareCalls } from "./trajectories.js";

/** The chain to show, those beside it, and why the shown one must not be trained. */
interface Judged {
  readonly chain: readonly CallNode[];
  readonly others: readonly SideTrajectory[];
  readonly holdsAnswer: boolean;
  readonly reasons: MaskReason[];
}

export function judgeChains(
  graph: CallGraph,
  answerId: string | null,
  purposes: ReadonlyMap<string, CallPurpose>,
  options: BuildOptions,
): Judged {
  const below = nodesBelow(graph, answerId);
  const answering = graph.leaves.filter((leaf) => below.has(leaf));
  const shared: MaskReason[] = [...callerReasons(options)];
  if (answerId !== null && answering.length === 0) {
    shared.push({ code: "TERMINAL_NOT_DELIVERED", detail: answerId });
  }
  if (options.delivery !== "all") {
    const chain = chooseChain(graph, answering);
    const reasons = [
      ...mainReasons(graph, answering),
      ...ownReasons(chain),
      ...auxiliaryReasons(chain, answerId, purposes),
      ...shared,
    ];
    return { chain, others: [], holdsAnswer: answering.length > 0, reasons };
  }
  const [shown = [], ...rest] = shareCalls(graph, answerId, purposes);
  const whole = graph.linked ? shared : [...severalReasons(graph), ...shared];
  return {
    chain: shown,
    others: rest.map((owned) => sideTrajectory(owned, purposes, whole, options)),
    holdsAnswer: answering.length > 0,
    reasons: [
      ...(graph.linked ? undecidedReasons(shown) : []),
      ...ownReasons(shown),
      ...auxiliaryReasons(shown, answerId, purposes),
      ...whole,
    ],
  };
}

function sideTrajectory(
  owned: readonly CallNode[],
  purposes: ReadonlyMap<string, CallPurpose>,
  whole: readonly MaskReason[],
  { trainedPurposes = TRAINED_PURPOSES }: BuildOptions,
): SideTrajectory {
  const purpose = purposes.get(owned[0]?.entry.model_call_id ?? "") ?? "other";
  const reasons = [...undecidedReasons(owned), ...ownReasons(owned), ...whole];
  if (!trainedPurposes.includes(purpose)) {
    reasons.push({ code: "PURPOSE_NOT_TRAINED", detail: purpose });
  }
  return { chain: owned.map((node) => node.entry), purpose, maskReasons: reasons };
}

/** B4, among the chains that hold the final answer; among all when none does. */
function chooseChain(graph: CallGraph, answering: readonly CallNode[]): CallNode[] {
  const choice = answering.length > 0 ? answering : graph.leaves;
  // Leaves of one root keep their order: shortest prompt first.
  return [...choice]
    .sort((a, b) => compareRoots(a.root, b.root))
    .slice(0, 1)
    .flatMap(chainOf);
}

function compareRoots({ entry: a }: CallNode, { entry: b }: CallNode): number {
  return a.created_at - b.created_at || compareIds(a.model_call_id, b.model_call_id);
}

/** B2, and B5 where it holds. */
function mainReasons(graph: CallGraph, answering: readonly CallNode[]): MaskReason[] {
  const [only, ...more] = answering;
  if (only === undefined) return severalReasons(graph);
  if (more.length > 0) {
    const ids = answering.map((leaf) => leaf.entry.model_call_id).join(" ");
    return [{ code: "TERMINAL_IN_SEVERAL_CHAINS", detail: ids }, ...severalReasons(graph)];
  }
  return graph.linked ? undecidedReasons([only]) : severalReasons(graph);
}

function severalReasons(graph: CallGraph): MaskReason[] {
  const reasons: MaskReason[] = [];
  if (graph.unresolvedRetries.length > 0) {
    reasons.push({ code: "UNRESOLVED_RETRY", detail: graph.unresolvedRetries.join(" ") });
  }
  if (graph.roots.length !== 1) {
    reasons.push({ code: "MULTIPLE_ROOTS", detail: String(graph.roots.length) });
  }
  if (graph.leaves.length !== 1) {
    reasons.push({ code: "MULTIPLE_CHAINS", detail: String(graph.leaves.length) });
  }
  return reasons;
}

function undecidedReasons(nodes: readonly CallNode[]): MaskReason[] {
  const undecided = nodes.filter((node) => node.undecided).map((node) => node.entry.model_call_id);
  return undecided.length === 0 ? [] : [{ code: "UNRESOLVED_RETRY", detail: undecided.join(" ") }];
}

/** Only a root can lie at a boundary: what it continues is not known. */
function ownReasons([first]: readonly CallNode[]): MaskReason[] {
  const root = first?.root;
  if (root?.boundary === undefined) return [];
  return [{ code: "UNRESOLVED_PARENT", detail: `${root.entry.model_call_id}: ${root.boundary}` }];
}

/** What a harness asks for beside its task. */
const AUXILIARY_PURPOSES: ReadonlySet<string> = new Set(["title", "subagent", "compaction"]);

/** B7. */
function auxiliaryReasons(
  chain: readonly CallNode[],
  answerId: string | null,
  purposes: ReadonlyMap<string, CallPurpose>,
): MaskReason[] {
  const lastId = chain.at(-1)?.entry.model_call_id;
  if (lastId === undefined || lastId === answerId) return [];
  const purpose = purposes.get(lastId) ?? "main";
  return AUXILIARY_PURPOSES.has(purpose)
    ? [{ code: "AUXILIARY_CHAIN", detail: `${lastId}: ${purpose}` }]
    : [];
}

/** What masks every chain: a reason of the caller, a store that lost a call. */
export function callerReasons(options: BuildOptions): MaskReason[] {
  const reasons = [...(options.extraMaskReasons ?? [])];
  if (options.incomplete === true) {
    const detail = (options.incompleteReasons ?? []).join(" ");
    reasons.push(
      detail === "" ? { code: "CAPTURE_INCOMPLETE" } : { code: "CAPTURE_INCOMPLETE", detail },
    );
  }
  return reasons;
}
