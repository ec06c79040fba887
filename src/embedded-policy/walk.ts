/**
 * The token distribution of the grammar, and the one loop that both sampling and replay run.
 *
 * At a node the policy picks a leaf and spells it with vocabulary tokens; the distribution over tokens is the exact
 * marginal over leaves and spellings. At each position the canonical token has probability 1 − ε and the other tokens that
 * fit share ε, so that now and then a completion is not what re-encoding its text would give, as with real models.
 *
 * W1. Sampling and replay compute a token's log probability by the same operations in the same order: their difference is
 *     exactly 0.
 * W2. The probabilities of a position sum to 1; an id that does not fit is refused, never given a floor probability.
 */
import type { Speller } from "./bpe.js";
import { type ChoiceNode, type Leaf, leafProbabilities } from "./choice-nodes.js";
import type { Spelling, Step } from "./spelling.js";

/** The tokens possible at one position. Arrays of one length, in a fixed order. */
export interface TokenDistribution {
  readonly ids: readonly number[];
  /** Sums to 1. */
  readonly probabilities: readonly number[];
}

/** What the policy believed about a node's leaves before and after its tokens. float64[leaves]. */
export interface LeafEvidence {
  readonly node: ChoiceNode;
  readonly prior: Float64Array;
  readonly posterior: Float64Array;
}

/** What a walk asks and tells. */
export interface WalkVisitor {
  /** The index of the next token in the distribution; undefined ends the walk. */
  choose(distribution: TokenDistribution): number | undefined;
  /** Called when a node is left, also in its middle when the walk ends there. */
  leave?(evidence: LeafEvidence): void;
}

/** A leaf that the tokens so far still allow. */
interface ActiveLeaf {
  readonly leaf: Leaf;
  readonly index: number;
  /** Posterior probability. */
  readonly mass: number;
  readonly spelling: Spelling;
}

/** Walks from `root` until a leaf ends the completion (true) or the visitor stops (false). */
export function walk(
  root: ChoiceNode,
  weights: Float64Array,
  speller: Speller,
  visitor: WalkVisitor,
): boolean {
  let node: ChoiceNode | undefined = root;
  while (node) {
    const last = walkNode(node, weights, speller, visitor);
    if (!last) return false;
    node = last.next?.();
  }
  return true;
}

/** Spells one leaf of the node and returns it; undefined when the visitor stopped. */
function walkNode(
  node: ChoiceNode,
  weights: Float64Array,
  speller: Speller,
  visitor: WalkVisitor,
): Leaf | undefined {
  const prior = leafProbabilities(node, weights);
  let active = node.leaves.map((leaf, index): ActiveLeaf => {
    return { leaf, index, mass: prior[index] ?? 0, spelling: speller.spelling(leaf.text) };
  });
  let position = 0;
  for (;;) {
    const finished = active[0]?.leaf;
    const ended = finished?.text.length === position;
    const steps = ended ? [] : active.map((a) => a.spelling.stepsAt(position));
    const chosen = ended ? undefined : chooseToken(active, steps, visitor);
    if (!chosen) {
      visitor.leave?.({ node, prior, posterior: posteriorOf(node, active) });
      return ended ? finished : undefined;
    }
    active = narrow(active, steps, chosen.id);
    position += chosen.length;
  }
}

/** The marginal over the active leaves, and the visitor's choice from it. */
function chooseToken(
  active: readonly ActiveLeaf[],
  steps: readonly (readonly Step[])[],
  visitor: WalkVisitor,
): { id: number; length: number } | undefined {
  const masses = new Map<number, { length: number; mass: number }>();
  let total = 0;
  active.forEach(({ mass }, i) => {
    for (const step of steps[i] ?? []) {
      const share = mass * step.probability;
      total += share;
      const entry = masses.get(step.id);
      if (entry) entry.mass += share;
      else masses.set(step.id, { length: step.length, mass: share });
    }
  });
  const ids = [...masses.keys()];
  const entries = [...masses.values()];
  const chosen = visitor.choose({ ids, probabilities: entries.map((e) => e.mass / total) });
  const id = chosen === undefined ? undefined : ids[chosen];
  if (chosen === undefined || id === undefined) return undefined;
  return { id, length: entries[chosen]?.length ?? 0 };
}

/** The leaves that the token allows, with masses that sum to 1 again. */
function narrow(
  active: readonly ActiveLeaf[],
  steps: readonly (readonly Step[])[],
  id: number,
): ActiveLeaf[] {
  const left: ActiveLeaf[] = [];
  let total = 0;
  active.forEach((entry, i) => {
    const step = steps[i]?.find((s) => s.id === id);
    if (!step) return;
    const mass = entry.mass * step.probability;
    total += mass;
    left.push({ ...entry, mass });
  });
  // Only a replay under far other weights can meet a total that underflowed; its token has −Infinity already.
  return left.map((e) => ({ ...e, mass: total > 0 ? e.mass / total : 1 / left.length }));
}

function posteriorOf(node: ChoiceNode, active: readonly ActiveLeaf[]): Float64Array {
  const posterior = new Float64Array(node.leaves.length);
  for (const { index, mass } of active) posterior[index] = mass;
  return posterior;
}
