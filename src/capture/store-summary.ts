/** What a store holds, in counts, for people. Reads; writes nothing. */
import type { Connection } from "./schema.js";
import { ROLLOUT_STATE } from "./store-statements.js";

export interface StoreSummary {
  /** `PRAGMA user_version` of the file. */
  readonly storeVersion: number;
  /** Of the file, without its write-ahead log; and of the records in it. */
  readonly fileBytes: number;
  readonly recordBytes: number;
  /** `retired`: tombstones of what was dropped. */
  readonly rollouts: { readonly open: number; readonly frozen: number; readonly retired: number };
  /** Recorded calls, and those that ended without tokens or have neither record nor end. */
  readonly calls: number;
  readonly failedCalls: number;
  readonly abortedCalls: number;
  readonly unsettledCalls: number;
  readonly generatedTokens: number;
  /** Rollouts that are marked, and how many of them for each reason. */
  readonly incomplete: number;
  readonly incompleteReasons: Readonly<Record<string, number>>;
  /** Puts that came after a freeze, or with another payload than before: each left a mark. */
  readonly refusedPuts: number;
  /** Writes that came after a drop, or from before a reset. */
  readonly lateWrites: number;
  /** When a rollout changed first and last, Unix epoch, ms; null without rollouts. */
  readonly oldestMs: number | null;
  readonly newestMs: number | null;
  /** Oldest first. */
  readonly frozenIds: readonly string[];
}

interface Counts {
  readonly open: number;
  readonly frozen: number;
  readonly retired: number;
  readonly incomplete: number;
  readonly lateWrites: number;
  readonly oldestMs: number | null;
  readonly newestMs: number | null;
}

interface CallCounts {
  readonly calls: number;
  readonly generatedTokens: number;
  readonly recordBytes: number;
  readonly failedCalls: number;
  readonly abortedCalls: number;
  readonly unsettledCalls: number;
  readonly refusedPuts: number;
}

/** At one moment, in one read transaction. */
export function readSummary(connection: Connection): StoreSummary {
  return connection.transaction((): StoreSummary => {
    const pragma = (name: string) => Number(connection.pragma(name, { simple: true }));
    const { open, frozen, retired, ...counts } = rolloutCounts(connection);
    return {
      storeVersion: pragma("user_version"),
      fileBytes: pragma("page_count") * pragma("page_size"),
      rollouts: { open, frozen, retired },
      ...counts,
      ...callCounts(connection),
      incompleteReasons: Object.fromEntries(
        connection
          .prepare<[], [string, number]>(
            "SELECT reason, count(DISTINCT rid) FROM lost GROUP BY reason ORDER BY reason",
          )
          .raw()
          .all(),
      ),
      frozenIds: connection
        .prepare<[number], string>(
          "SELECT rollout_id FROM rollout WHERE state = ? ORDER BY updated_at, rid",
        )
        .pluck()
        .all(ROLLOUT_STATE.frozen),
    };
  })();
}

function rolloutCounts(connection: Connection): Counts {
  const { open, frozen, retired } = ROLLOUT_STATE;
  const counts = connection
    .prepare<[], Counts>(
      `SELECT count(*) FILTER (WHERE state = ${open}) AS open,
        count(*) FILTER (WHERE state = ${frozen}) AS frozen,
        count(*) FILTER (WHERE state = ${retired}) AS retired,
        count(*) FILTER (WHERE incomplete <> 0) AS incomplete,
        coalesce(sum(late_writes), 0) AS lateWrites,
        min(updated_at) AS oldestMs, max(updated_at) AS newestMs FROM rollout`,
    )
    .get();
  if (counts === undefined) throw new Error("an aggregate has a row");
  return counts;
}

function callCounts(connection: Connection): CallCounts {
  // `length` of a BLOB is in its row's header: its pages are not read.
  const counts = connection
    .prepare<[], CallCounts>(
      `SELECT count(*) AS calls, coalesce(sum(n_gen), 0) AS generatedTokens,
        coalesce(sum(length(prompt) + length(gen) + length(logp) + length(meta)), 0) AS recordBytes,
        (SELECT count(*) FROM ended WHERE outcome = 'failed') AS failedCalls,
        (SELECT count(*) FROM ended WHERE outcome = 'aborted') AS abortedCalls,
        (SELECT count(*) FROM intent) AS unsettledCalls,
        (SELECT count(*) FROM lost WHERE reason IN ('PUT_AFTER_FREEZE', 'RECORD_CONFLICT'))
          AS refusedPuts
        FROM entry`,
    )
    .get();
  if (counts === undefined) throw new Error("an aggregate has a row");
  return counts;
}
