/**
 * How a store file looks, and how a connection to it is opened.
 *
 * Q1. Every pragma is set and read back on every connection: better-sqlite3 gives FULL to the connection that creates
 *     a file and NORMAL to the next one, and NORMAL loses acknowledged writes when the machine stops.
 * Q2. A file of a newer version is refused with `SCHEMA_TOO_NEW`; a file that is not ours is refused unchanged.
 * Q3. Log probabilities live in BLOBs: a REAL column turns NaN into NULL and -0 into 0.
 */
import Database from "better-sqlite3";
import { CaptureError } from "./errors.js";
import { storeFailure } from "./store-failure.js";

/** A connection of better-sqlite3. */
export type Connection = Database.Database;

/** `PRAGMA user_version` that this build writes. */
export const STORE_VERSION = 1;
/** `PRAGMA application_id` of a capture store. */
export const APPLICATION_ID = 1413697843;

const DDL = `
CREATE TABLE rollout(
  rid          INTEGER PRIMARY KEY AUTOINCREMENT,
  rollout_id   TEXT    NOT NULL UNIQUE,
  epoch        INTEGER NOT NULL,             -- fences writers that began before the last reset
  state        INTEGER NOT NULL DEFAULT 0 CHECK (state IN (0, 1, 2)),  -- open, frozen, retired (tombstone)
  incomplete   INTEGER NOT NULL DEFAULT 0,
  version      INTEGER NOT NULL DEFAULT 0,
  snapshot_id  TEXT    NOT NULL DEFAULT '',
  late_writes  INTEGER NOT NULL DEFAULT 0,   -- refused: they came after the drop, or from before the last reset
  updated_at   INTEGER NOT NULL,             -- Unix epoch, ms
  CHECK ((state = 0) = (snapshot_id = ''))
) STRICT;
CREATE INDEX rollout_retired ON rollout(updated_at) WHERE state = 2;

CREATE TABLE entry(
  id           INTEGER PRIMARY KEY,
  rid          INTEGER NOT NULL REFERENCES rollout(rid),
  call_id      TEXT    NOT NULL,
  digest       BLOB    NOT NULL CHECK (length(digest) = 32),
  cum_digest   BLOB    NOT NULL CHECK (length(cum_digest) = 32),
  lineage_key  BLOB    CHECK (length(lineage_key) = 32),
  created_at   REAL    NOT NULL,             -- Unix epoch, s
  base_id      INTEGER,                      -- prompt = (prompt || gen of base)[0 : prefix_len] || prompt blob
  prefix_len   INTEGER NOT NULL,
  n_prompt     INTEGER NOT NULL,
  n_gen        INTEGER NOT NULL,
  lp_width     INTEGER NOT NULL CHECK (lp_width IN (4, 8)),
  meta         TEXT    NOT NULL,             -- canonical JSON of everything that is not an array of numbers
  prompt       BLOB    NOT NULL,             -- int32[n_prompt - prefix_len]
  gen          BLOB    NOT NULL,             -- int32[n_gen]
  logp         BLOB    NOT NULL,             -- float32[n_gen] or float64[n_gen], by lp_width
  CHECK (length(prompt) = 4 * (n_prompt - prefix_len)),
  CHECK (length(gen)    = 4 * n_gen),
  CHECK (length(logp)   = lp_width * n_gen),
  CHECK ((base_id IS NULL) = (prefix_len = 0)),
  CHECK (base_id < id),
  UNIQUE (rid, call_id)
) STRICT;
CREATE INDEX entry_lineage ON entry(rid, lineage_key) WHERE lineage_key IS NOT NULL;

-- dispatched, neither recorded nor ended
CREATE TABLE intent(
  rid INTEGER NOT NULL, call_id TEXT NOT NULL, PRIMARY KEY (rid, call_id)
) STRICT, WITHOUT ROWID;

-- ended without trainable tokens: evidence, not a hole
CREATE TABLE ended(
  rid INTEGER NOT NULL, call_id TEXT NOT NULL,
  outcome TEXT NOT NULL CHECK (outcome IN ('failed', 'aborted')),
  PRIMARY KEY (rid, call_id)
) STRICT, WITHOUT ROWID;

-- why a rollout is incomplete; call_id is '' where no call is known
CREATE TABLE lost(
  rid INTEGER NOT NULL, call_id TEXT NOT NULL, reason TEXT NOT NULL, PRIMARY KEY (rid, call_id, reason)
) STRICT, WITHOUT ROWID;

-- outlives every rollout: an epoch is never given twice
CREATE TABLE counter(name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO counter(name, value) VALUES ('epoch', 0);
`;

/** Name, value to set, value that must be read back. */
const PRAGMAS: readonly (readonly [name: string, value: string, expected: unknown])[] = [
  ["busy_timeout", "10000", 10_000],
  ["journal_mode", "WAL", "wal"],
  ["synchronous", "FULL", 2],
  ["wal_autocheckpoint", "1000", 1000],
  ["journal_size_limit", "67108864", 67_108_864],
  ["trusted_schema", "OFF", 0],
  ["cell_size_check", "ON", 1],
];

/**
 * Opens or creates a store file.
 * @param maxSizeBytes the file never grows beyond this; a write that would is `STORE_FAILED`.
 * @throws SCHEMA_TOO_NEW when a newer build wrote it.
 * @throws STORE_FAILED when SQLite refuses, or the file is not a store.
 */
export function openConnection(path: string, maxSizeBytes?: number): Connection {
  let connection: Connection | undefined;
  try {
    connection = new Database(path);
    refuseForeign(connection, path);
    setPragmas(connection, path);
    if (maxSizeBytes !== undefined) setSizeLimit(connection, maxSizeBytes);
    migrate(connection, path);
    return connection;
  } catch (error) {
    connection?.close();
    throw storeFailure(error, path);
  }
}

/** Q1 */
function setPragmas(connection: Connection, path: string): void {
  for (const [name, value, expected] of PRAGMAS) {
    connection.pragma(`${name}=${value}`);
    const actual: unknown = connection.pragma(name, { simple: true });
    if (actual === expected) continue;
    throw new CaptureError(
      "STORE_FAILED",
      `${JSON.stringify(path)}: PRAGMA ${name} is ${String(actual)} after it was set to ${value}.`,
    );
  }
}

/** For this connection; what the file has grown to already stays. */
export function setSizeLimit(connection: Connection, maxSizeBytes: number): void {
  const pageSize = Number(connection.pragma("page_size", { simple: true }));
  const pages = Math.max(1, Math.floor(maxSizeBytes / pageSize));
  connection.pragma(`max_page_count=${pages}`);
}

/** Q2 */
function refuseForeign(connection: Connection, path: string): void {
  const version = Number(connection.pragma("user_version", { simple: true }));
  const application = Number(connection.pragma("application_id", { simple: true }));
  const objects = connection.prepare("SELECT count(*) FROM sqlite_master").pluck().get();
  const ours = application === APPLICATION_ID;
  if (!ours && (version !== 0 || objects !== 0)) {
    throw new CaptureError("STORE_FAILED", `${JSON.stringify(path)} is not a capture store.`);
  }
  if (version > STORE_VERSION) {
    throw new CaptureError(
      "SCHEMA_TOO_NEW",
      `${JSON.stringify(path)} has store version ${version}; this build reads up to ${STORE_VERSION}.`,
    );
  }
}

/** Looks again under the write lock: another process may have created the file a moment ago. */
function migrate(connection: Connection, path: string): void {
  connection
    .transaction(() => {
      refuseForeign(connection, path);
      if (connection.pragma("user_version", { simple: true }) !== 0) return;
      connection.exec(DDL);
      connection.pragma(`application_id=${APPLICATION_ID}`);
      connection.pragma(`user_version=${STORE_VERSION}`);
    })
    .immediate();
}
