/** The SQL of every write. Each query was seen to use an index. */
import type { Statement } from "better-sqlite3";
import type { EntryRow } from "./entry-row.js";
import type { Connection } from "./schema.js";

/** `rollout.state`. */
export const ROLLOUT_STATE = { open: 0, frozen: 1, retired: 2 } as const;

/** The columns of `rollout` that decide a write. */
export interface RolloutRecord {
  readonly rid: number;
  readonly epoch: number;
  readonly state: number;
}

/** A frozen rollout and the bytes of its records. */
interface FrozenRollout {
  readonly rid: number;
  readonly rolloutId: string;
  /** Unix epoch, ms. */
  readonly updatedAt: number;
  readonly bytes: number;
}

/** An earlier record that a prompt begins with. */
interface BaseRecord {
  readonly id: number;
  /** Prompt plus generated tokens. */
  readonly length: number;
}

interface Touch {
  readonly rid: number;
  readonly now: number;
}

type RolloutStatements = Readonly<{
  find: Statement<[rolloutId: string], RolloutRecord>;
  create: Statement<[{ rolloutId: string; epoch: number; now: number }]>;
  nextEpoch: Statement<[], { value: number }>;
  freeze: Statement<[Touch & { snapshotId: string }]>;
  retire: Statement<[Touch & { snapshotId: string; version: number }]>;
  reset: Statement<[Touch & { epoch: number }]>;
  bump: Statement<[Touch]>;
  mark: Statement<[Touch]>;
  frozen: Statement<[], FrozenRollout>;
  discard: Statement<[Touch]>;
  countLate: Statement<[rid: number]>;
  allOpen: Statement<[], { rid: number; rollout_id: string }>;
  sweep: Statement<[retiredBeforeMs: number]>;
  deleteRecords: readonly Statement<[rid: number]>[];
}>;

type CallStatements = Readonly<{
  begin: Statement<[{ rid: number; callId: string }]>;
  hasIntent: Statement<[rid: number, callId: string]>;
  closeIntent: Statement<[rid: number, callId: string]>;
  end: Statement<[rid: number, callId: string, outcome: string]>;
  isEnded: Statement<[rid: number, callId: string]>;
  lost: Statement<[rid: number, callId: string, reason: string]>;
  digestOf: Statement<[rid: number, callId: string], { digest: Uint8Array }>;
  findBase: Statement<[rid: number, callId: string, digest: Uint8Array], BaseRecord>;
  insertEntry: Statement<
    [Omit<EntryRow, "rolloutId" | "base"> & { rid: number; baseId: number | null }]
  >;
}>;

export type WriteStatements = RolloutStatements & CallStatements;

/** Prepares every write statement of one connection. */
export function writeStatements(connection: Connection): WriteStatements {
  return { ...rolloutStatements(connection), ...callStatements(connection) };
}

function rolloutStatements(connection: Connection): RolloutStatements {
  const deleteFrom = (table: string): Statement<[number]> =>
    connection.prepare(`DELETE FROM ${table} WHERE rid = ?`);
  return {
    find: connection.prepare("SELECT rid, epoch, state FROM rollout WHERE rollout_id = ?"),
    create: connection.prepare(
      "INSERT INTO rollout(rollout_id, epoch, updated_at) VALUES (:rolloutId, :epoch, :now)",
    ),
    nextEpoch: connection.prepare(
      "UPDATE counter SET value = value + 1 WHERE name = 'epoch' RETURNING value",
    ),
    freeze: connection.prepare(
      `UPDATE rollout SET state = 1, snapshot_id = :snapshotId, version = version + 1, updated_at = :now
        WHERE rid = :rid AND state = 0`,
    ),
    retire: connection.prepare(
      `UPDATE rollout SET state = 2, updated_at = :now
        WHERE rid = :rid AND state = 1 AND snapshot_id = :snapshotId AND version = :version`,
    ),
    reset: connection.prepare(
      `UPDATE rollout SET epoch = :epoch, state = 0, incomplete = 0, version = version + 1, snapshot_id = '',
        updated_at = :now WHERE rid = :rid`,
    ),
    bump: connection.prepare(
      "UPDATE rollout SET version = version + 1, updated_at = :now WHERE rid = :rid",
    ),
    mark: connection.prepare(
      `UPDATE rollout SET incomplete = 1, version = version + 1, updated_at = :now
        WHERE rid = :rid AND state < 2`,
    ),
    // `length` of a BLOB is in its row's header: its pages are not read.
    frozen: connection.prepare(
      `SELECT rid, rollout_id AS rolloutId, updated_at AS updatedAt,
        (SELECT coalesce(sum(length(prompt) + length(gen) + length(logp) + length(meta)), 0)
           FROM entry WHERE entry.rid = rollout.rid) AS bytes
        FROM rollout WHERE state = 1 ORDER BY updated_at DESC, rid DESC`,
    ),
    discard: connection.prepare(
      "UPDATE rollout SET state = 2, updated_at = :now WHERE rid = :rid AND state = 1",
    ),
    countLate: connection.prepare("UPDATE rollout SET late_writes = late_writes + 1 WHERE rid = ?"),
    allOpen: connection.prepare("SELECT rid, rollout_id FROM rollout WHERE state = 0"),
    sweep: connection.prepare("DELETE FROM rollout WHERE state = 2 AND updated_at < ?"),
    deleteRecords: ["entry", "intent", "ended", "lost"].map(deleteFrom),
  };
}

function callStatements(connection: Connection): CallStatements {
  return {
    begin: connection.prepare(
      `INSERT INTO intent(rid, call_id)
        SELECT :rid, :callId
         WHERE NOT EXISTS (SELECT 1 FROM entry WHERE rid = :rid AND call_id = :callId)
           AND NOT EXISTS (SELECT 1 FROM ended WHERE rid = :rid AND call_id = :callId)
        ON CONFLICT DO NOTHING`,
    ),
    hasIntent: connection.prepare("SELECT 1 FROM intent WHERE rid = ? AND call_id = ?"),
    closeIntent: connection.prepare("DELETE FROM intent WHERE rid = ? AND call_id = ?"),
    end: connection.prepare(
      "INSERT INTO ended(rid, call_id, outcome) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
    ),
    isEnded: connection.prepare("SELECT 1 FROM ended WHERE rid = ? AND call_id = ?"),
    lost: connection.prepare(
      "INSERT INTO lost(rid, call_id, reason) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
    ),
    digestOf: connection.prepare("SELECT digest FROM entry WHERE rid = ? AND call_id = ?"),
    findBase: connection.prepare(
      "SELECT id, n_prompt + n_gen AS length FROM entry WHERE rid = ? AND call_id = ? AND digest = ?",
    ),
    insertEntry: connection.prepare(
      `INSERT INTO entry(rid, call_id, digest, cum_digest, lineage_key, created_at, base_id, prefix_len, n_prompt, n_gen,
        lp_width, meta, prompt, gen, logp)
       VALUES (:rid, :modelCallId, :digest, :cumulativeDigest, :lineageKey, :createdAt, :baseId, :prefixLength,
        :promptLength, :generationLength, :logProbWidth, :meta, :prompt, :generation, :logProbs)`,
    ),
  };
}
