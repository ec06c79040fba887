/**
 * Finds the recorded call whose cumulative tokens are the longest prefix of a prompt: a radix tree over token ids.
 * It is not lineage: equal tokens do not prove that a call was continued, so callers use it only for records that
 * carry no verdict.
 *
 * X1. Exact: edges are compared id by id, never by hash.
 * X2. Linear in the tokens added; edges are views of the records' own arrays, nothing is copied.
 */
import { commonPrefixLength, startsWith } from "./token-views.js";

interface TreeNode<T> {
  /** int32[n], a view: the tokens between the node above and this one. */
  edge: Int32Array;
  children: Map<number, TreeNode<T>>;
  /** Calls whose cumulative tokens end here. */
  owners: T[];
}

/** Where a walk stands: `used` tokens of `node.edge` are matched. */
interface Position<T> {
  node: TreeNode<T>;
  used: number;
}

interface LastAdded<T> {
  readonly prompt: Int32Array;
  readonly generation: Int32Array;
  readonly node: TreeNode<T>;
}

function newNode<T>(edge: Int32Array): TreeNode<T> {
  return { edge, children: new Map(), owners: [] };
}

export class PrefixIndex<T> {
  readonly #top: TreeNode<T> = newNode(new Int32Array(0));
  #last: LastAdded<T> | undefined;

  /**
   * The owners of the longest cumulative sequence that is a prefix of `prompt`, then adds this call's own sequence.
   * Contract: calls come in order of prompt length. Several owners have identical tokens; none: `[]`.
   */
  matchThenAdd(prompt: Int32Array, generation: Int32Array, owner: T): readonly T[] {
    const found: { owners: readonly T[] } = { owners: [] };
    const start = this.#start(prompt, found);
    const end = this.#extend(start.position, prompt.subarray(start.consumed), found);
    const node = this.#split(this.#extend(end, generation, { owners: [] }));
    const matched = [...found.owners];
    node.owners.push(owner);
    this.#last = { prompt, generation, node };
    return matched;
  }

  /** The call added last is the usual parent: start below it instead of walking the whole chain again. */
  #start(prompt: Int32Array, found: { owners: readonly T[] }) {
    const last = this.#last;
    if (last !== undefined && startsWith(prompt, last.prompt, last.generation)) {
      found.owners = last.node.owners;
      const position = { node: last.node, used: last.node.edge.length };
      return { position, consumed: last.prompt.length + last.generation.length };
    }
    return { position: { node: this.#top, used: 0 }, consumed: 0 };
  }

  /** Walks `tokens` from `position`, adding what the tree lacks; notes the deepest owners passed on the way. */
  #extend(position: Position<T>, tokens: Int32Array, found: { owners: readonly T[] }): Position<T> {
    let { node, used } = position;
    let rest = tokens;
    while (rest.length > 0) {
      if (used < node.edge.length) {
        const same = commonPrefixLength(node.edge.subarray(used), rest);
        used += same;
        rest = rest.subarray(same);
        if (used < node.edge.length) {
          if (rest.length === 0) break;
          node = this.#split({ node, used });
          used = node.edge.length;
        }
      } else {
        const first = rest[0] ?? 0;
        const child = node.children.get(first);
        if (child === undefined) {
          const added = newNode<T>(rest);
          node.children.set(first, added);
          return { node: added, used: rest.length };
        }
        node = child;
        used = 0;
      }
      if (used === node.edge.length && node.owners.length > 0) found.owners = node.owners;
    }
    return { node, used };
  }

  /** Makes `position` a node of its own. `#last` may point into what moves, but is replaced before it is read. */
  #split({ node, used }: Position<T>): TreeNode<T> {
    if (used === node.edge.length) return node;
    const lower: TreeNode<T> = {
      edge: node.edge.subarray(used),
      children: node.children,
      owners: node.owners,
    };
    node.edge = node.edge.subarray(0, used);
    node.children = new Map([[lower.edge[0] ?? 0, lower]]);
    node.owners = [];
    return node;
  }
}
