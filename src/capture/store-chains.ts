/**
 * What a sink remembers of the calls it sent: the last tokens of each rollout's chains, so that a put compares at
 * memory speed and sends, checks and digests only what is new.
 *
 * H1. A match is exact: the prompt was compared with the remembered tokens, never taken on trust. One that was made
 *     before counts as long as its chain did not turn since.
 * H2. Forgetting costs bytes in the store and nothing else: a prompt without a match is stored whole.
 * H3. Bounded by bytes. The rollouts that were written to longest ago go first, the current one never.
 * H4. A call is shown to a reader only once it is acknowledged.
 */
import { TokenHash } from "./digest.js";
import type { DeltaStart, EntryBase, EntryRow } from "./entry-row.js";
import type { TokenEntry } from "./records.js";
import { commonPrefixLength } from "./token-views.js";

/** Chains of one rollout at a time: the main conversation, sub-agents, what preceded a compaction. */
const MAX_CHAINS = 8;
/** Hashes kept along a chain, so that one that turns off near its end is not hashed from its start. */
const MAX_MARKS = 8;

/** What lineage needs of an acknowledged call. */
export type StoredCall = Pick<
  EntryRow,
  "modelCallId" | "cumulativeDigest" | "lineageKey" | "meta" | "promptLength" | "generationLength"
>;

interface Mark {
  readonly length: number;
  readonly hash: TokenHash;
}

/** The tokens of one chain up to its latest call. */
class TokenChain {
  #buffer = new Int32Array(1024);
  #length = 0;
  #marks: Mark[] = [];
  /** Grows with every call that goes on here. */
  turns = 0;
  /** The call whose prompt and generation the tokens are. */
  tip: EntryBase;
  /** The tip's, when it was acknowledged. */
  stored: StoredCall | undefined;

  constructor(tip: EntryBase) {
    this.tip = tip;
  }

  get length(): number {
    return this.#length;
  }

  get bytes(): number {
    return this.#buffer.byteLength + (this.stored?.meta.length ?? 0);
  }

  get tokens(): Int32Array {
    return this.#buffer.subarray(0, this.#length);
  }

  /** Keeps the first `at` tokens and goes on with these. */
  turn(at: number, parts: readonly Int32Array[], tip: EntryBase, hash: TokenHash): void {
    const length = parts.reduce((sum, part) => sum + part.length, at);
    if (length > this.#buffer.length) {
      const larger = new Int32Array(Math.max(length, 2 * this.#buffer.length));
      larger.set(this.#buffer.subarray(0, at));
      this.#buffer = larger;
    }
    let end = at;
    for (const part of parts) {
      this.#buffer.set(part, end);
      end += part.length;
    }
    this.#length = length;
    this.#marks = [
      ...this.#marks.filter((mark) => mark.length <= at).slice(1 - MAX_MARKS),
      { length, hash },
    ];
    this.tip = tip;
    this.stored = undefined;
    this.turns += 1;
  }

  /** Over the first `length` tokens. */
  hashAt(length: number): TokenHash {
    const mark = this.#marks.findLast((known) => known.length <= length);
    const rest = this.#buffer.subarray(mark?.length ?? 0, length);
    return (mark?.hash ?? TokenHash.empty()).add(rest);
  }
}

/** The longest beginning that a prompt shares with a chain of its rollout. */
export interface ChainMatch {
  readonly chain: TokenChain;
  readonly prefixLength: number;
  /** Of the chain, when the prompt was compared with it. */
  readonly turns: number;
}

export class ChainCache {
  readonly #maxBytes: number;
  /** Written to longest ago first; so are the chains of each. */
  readonly #rollouts = new Map<string, TokenChain[]>();
  #bytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** To be used before the next `note`, or when it `stillHolds`: the chain may turn. */
  match(rolloutId: string, prompt: Int32Array): ChainMatch | undefined {
    let best: ChainMatch | undefined;
    for (const chain of this.#rollouts.get(rolloutId) ?? []) {
      const prefixLength = commonPrefixLength(chain.tokens, prompt);
      if (prefixLength <= (best?.prefixLength ?? 0)) continue;
      best = { chain, prefixLength, turns: chain.turns };
    }
    return best;
  }

  /** Whether a match of this rollout is still what its prompt begins with. */
  stillHolds(rolloutId: string, { chain, turns }: ChainMatch): boolean {
    return chain.turns === turns && this.#rollouts.get(rolloutId)?.includes(chain) === true;
  }

  /** Remembers an encoded call as the latest of its chain, or as a chain of its own. */
  note(
    entry: TokenEntry,
    digest: Uint8Array,
    hash: TokenHash,
    match: ChainMatch | undefined,
  ): void {
    const { rollout_id: rolloutId, model_call_id: modelCallId } = entry;
    const tip = { modelCallId, digest };
    const chains = this.#rollouts.get(rolloutId) ?? [];
    // A chain that loses little goes on; one that would lose much may be continued later, so it stays.
    const goesOn = match !== undefined && 2 * match.prefixLength >= match.chain.length;
    const chain = goesOn ? match.chain : new TokenChain(tip);
    const before = goesOn ? chain.bytes : 0;
    const at = goesOn ? match.prefixLength : 0;
    const parts = [entry.prompt_token_ids.subarray(at), entry.generation_token_ids];
    chain.turn(at, parts, tip, hash);
    this.#bytes += chain.bytes - before;
    const others = chains.filter((other) => other !== chain);
    const dropped = others.splice(0, Math.max(0, others.length + 1 - MAX_CHAINS));
    this.#bytes -= sizeOf(dropped);
    this.#rollouts.delete(rolloutId);
    this.#rollouts.set(rolloutId, [...others, chain]);
    this.#forgetOldest();
  }

  /** The row is durable (H4). Of a call that is no longer the latest of its chain nothing is kept. */
  confirm(row: EntryRow): void {
    const chain = this.#tipOf(row.rolloutId, row.modelCallId);
    if (chain?.tip.digest !== row.digest) return;
    const { modelCallId, cumulativeDigest, lineageKey, meta, promptLength, generationLength } = row;
    const lengths = { promptLength, generationLength };
    this.#bytes -= chain.bytes;
    chain.stored = { modelCallId, cumulativeDigest, lineageKey, meta, ...lengths };
    this.#bytes += chain.bytes;
    this.#forgetOldest();
  }

  /** The acknowledged latest call of a chain that has this lineage key, sha256. */
  findStored(rolloutId: string, lineageKey: Uint8Array): StoredCall | undefined {
    const calls = (this.#rollouts.get(rolloutId) ?? []).map((chain) => chain.stored);
    return calls.find(
      (call) => call?.lineageKey && Buffer.compare(call.lineageKey, lineageKey) === 0,
    );
  }

  /** int32[P+G] of a call that is the latest of its chain; undefined for any other. A copy. */
  cumulativeIds(rolloutId: string, modelCallId: string): Int32Array | undefined {
    return this.#tipOf(rolloutId, modelCallId)?.tokens.slice();
  }

  /** The rollout makes no more calls, or begins again. */
  forget(rolloutId: string): void {
    this.#bytes -= sizeOf(this.#rollouts.get(rolloutId) ?? []);
    this.#rollouts.delete(rolloutId);
  }

  #tipOf(rolloutId: string, modelCallId: string): TokenChain | undefined {
    const chains = this.#rollouts.get(rolloutId) ?? [];
    return chains.findLast((chain) => chain.tip.modelCallId === modelCallId);
  }

  /** H3 */
  #forgetOldest(): void {
    for (const [rolloutId, chains] of this.#rollouts) {
      if (this.#bytes <= this.#maxBytes || this.#rollouts.size === 1) return;
      this.#rollouts.delete(rolloutId);
      this.#bytes -= sizeOf(chains);
    }
  }
}

/** Where the entry's prompt starts to be new. */
export function startOf(match: ChainMatch | undefined): DeltaStart | undefined {
  if (match === undefined) return undefined;
  const { chain, prefixLength } = match;
  return { base: chain.tip, prefixLength, hash: chain.hashAt(prefixLength) };
}

function sizeOf(chains: readonly TokenChain[]): number {
  return chains.reduce((sum, chain) => sum + chain.bytes, 0);
}
