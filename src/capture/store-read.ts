/**
 * The store's reads: the snapshot of a frozen rollout, and lineage.
 *
 * N1. A snapshot holds only records whose digest was re-checked on the materialised data. A record that fails, or that
 *     a newer build wrote, is left out and the snapshot is incomplete: it can mask a rollout, never train.
 * N2. Rows are read with `all`: an unfinished iteration would pin the write-ahead log.
 */
import type { LineageKey, LineageNode, TokenCaptureSnapshot } from "./contracts.js";
import { decodeNode, lineageKeyHash, type StoredEntry } from "./entry-row.js";
import { CaptureError } from "./errors.js";
import type { TokenEntry } from "./records.js";
import type { Connection } from "./schema.js";
import { materialise } from "./store-materialise.js";
import { ROLLOUT_STATE } from "./store-statements.js";

interface RolloutHead {
  readonly rid: number;
  readonly state: number;
  readonly incomplete: number;
  readonly version: number;
  readonly snapshot_id: string;
  readonly failed: number;
  readonly aborted: number;
  readonly dangling: number;
}

type NodeRow = Parameters<typeof decodeNode>[0];

const ENTRY_COLUMNS =
  "id, call_id, digest, cum_digest, created_at, base_id, prefix_len, n_prompt, n_gen, lp_width, meta, prompt, gen, logp";

export class StoreReader {
  readonly #readTransaction: (rolloutId: string) => TokenCaptureSnapshot | undefined;
  readonly #peekTransaction: (rolloutId: string) => TokenCaptureSnapshot | undefined;
  readonly #sql: ReturnType<typeof readStatements>;

  constructor(connection: Connection) {
    this.#sql = readStatements(connection);
    this.#readTransaction = connection.transaction((rolloutId: string) => this.#read(rolloutId));
    this.#peekTransaction = connection.transaction((rolloutId: string) =>
      this.#read(rolloutId, false),
    );
  }

  /** Flags and records at one moment; undefined when the rollout is not frozen. */
  snapshot(rolloutId: string): TokenCaptureSnapshot | undefined {
    return this.#readTransaction(rolloutId);
  }

  /** The same in any state; undefined when the rollout was never seen. */
  peek(rolloutId: string): TokenCaptureSnapshot | undefined {
    return this.#peekTransaction(rolloutId);
  }

  candidates(rolloutId: string, key: LineageKey): readonly LineageNode[] {
    return this.#sql.nodes.all(rolloutId, lineageKeyHash(key)).map(decodeNode);
  }

  /** @throws CALL_NOT_FOUND; DIGEST_MISMATCH when a stored byte of the call or of what it extends changed. */
  cumulativeIds(rolloutId: string, modelCallId: string): Int32Array {
    const last = materialise(inOrder(this.#sql.chain.all(rolloutId, modelCallId))).at(-1);
    if (last === undefined) {
      throw new CaptureError(
        "CALL_NOT_FOUND",
        `Rollout ${JSON.stringify(rolloutId)} has no recorded call ${JSON.stringify(modelCallId)}.`,
      );
    }
    if (last.entry === undefined) throw last.error;
    const { prompt_token_ids: prompt, generation_token_ids: generation } = last.entry;
    const ids = new Int32Array(prompt.length + generation.length);
    ids.set(prompt);
    ids.set(generation, prompt.length);
    return ids;
  }

  #read(rolloutId: string, frozenOnly = true): TokenCaptureSnapshot | undefined {
    const head = this.#sql.head.get(rolloutId);
    if (head === undefined) return undefined;
    if (frozenOnly && head.state !== ROLLOUT_STATE.frozen) return undefined;
    const reasons = new Set(this.#sql.reasons.all(head.rid).map((row) => row.reason));
    if (head.dangling !== 0) reasons.add("DANGLING_INTENT");
    const entries = this.#decodeAll(head.rid, reasons);
    if (head.incomplete !== 0 && reasons.size === 0) reasons.add("LOST_CALL");
    return {
      rolloutId,
      entries,
      incomplete: reasons.size > 0,
      incompleteReasons: [...reasons].sort(),
      failedCalls: head.failed,
      abortedCalls: head.aborted,
      snapshotId: head.snapshot_id,
      version: head.version,
    };
  }

  /** N1 */
  #decodeAll(rid: number, reasons: Set<string>): readonly TokenEntry[] {
    const entries: TokenEntry[] = [];
    for (const { entry, error } of materialise(inOrder(this.#sql.entries.all(rid)))) {
      if (entry !== undefined) entries.push(entry);
      else reasons.add(error.code);
    }
    return entries;
  }
}

/** Sorted here: ORDER BY would push the BLOBs through a temporary b-tree. */
function inOrder(rows: StoredEntry[]): StoredEntry[] {
  return rows.sort((a, b) => a.id - b.id);
}

function readStatements(connection: Connection) {
  const ended = (outcome: string) =>
    `(SELECT count(*) FROM ended e WHERE e.rid = r.rid AND e.outcome = '${outcome}')`;
  return {
    head: connection.prepare<[string], RolloutHead>(
      `SELECT r.rid, r.state, r.incomplete, r.version, r.snapshot_id,
        ${ended("failed")} AS failed, ${ended("aborted")} AS aborted,
        EXISTS (SELECT 1 FROM intent i WHERE i.rid = r.rid) AS dangling
        FROM rollout r WHERE r.rollout_id = ?`,
    ),
    reasons: connection.prepare<[number], { reason: string }>(
      "SELECT DISTINCT reason FROM lost WHERE rid = ?",
    ),
    entries: connection.prepare<[number], StoredEntry>(
      `SELECT ${ENTRY_COLUMNS} FROM entry WHERE rid = ?`,
    ),
    // A base is older than what was stored upon it; the comparison ends the walk whatever the file holds.
    chain: connection.prepare<[string, string], StoredEntry>(
      `WITH RECURSIVE chain(link) AS (
         SELECT id FROM entry
          WHERE rid = (SELECT rid FROM rollout WHERE rollout_id = ?) AND call_id = ?
         UNION ALL
         SELECT base_id FROM entry, chain WHERE id = link AND base_id < id)
       SELECT ${ENTRY_COLUMNS} FROM chain JOIN entry ON id = link`,
    ),
    nodes: connection.prepare<[string, Uint8Array], NodeRow>(
      `SELECT call_id, cum_digest, meta, n_prompt + n_gen AS cum_len FROM entry
        WHERE rid = (SELECT rid FROM rollout WHERE rollout_id = ?) AND lineage_key = ?`,
    ),
  };
}
