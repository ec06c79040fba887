/**
 * The SQLite store of one run directory, as sink, source and lineage. Not a cache: every read goes to the file, so
 * several processes of the node may open it.
 *
 * T1. A write is durable (WAL, synchronous=FULL) before it is acknowledged, or it is not acknowledged.
 * T2. Every write, freeze and drop goes through one queue and is committed with all that wait beside it.
 * T3. A write into a file that was removed or replaced is never acknowledged: the files are compared after every commit.
 * T4. A failure of SQLite is `STORE_FAILED`; the transaction is rolled back and the next operation tries afresh.
 * T5. A consumer cannot starve writers: one snapshot is read between two commits, and it pauses while other
 *     connections write.
 * T6. A write that finds no room marks its rollout incomplete from room kept in reserve.
 */
import { randomUUID } from "node:crypto";
import { join } from "node:path";
import type {
  CallOutcome,
  LineageKey,
  LineageNode,
  TokenCaptureSnapshot,
  TokenLineage,
  TokenSink,
  TokenSource,
} from "./contracts.js";
import { CaptureError, type CaptureErrorCode } from "./errors.js";
import type { TokenEntry } from "./records.js";
import { type Connection, openConnection } from "./schema.js";
import { GroupCommit } from "./store-commit.js";
import { isFull, storeFailure } from "./store-failure.js";
import { FileIdentity, prepareDirectory } from "./store-file.js";
import { type PrunedRollout, type PruneFrozen, StoreOperations } from "./store-operations.js";
import { ConsumerPace } from "./store-pace.js";
import type { RowWriter, StoreAnswer, StoreOperation } from "./store-protocol.js";
import { StoreReader } from "./store-read.js";
import { StoreReserve } from "./store-reserve.js";
import { StoreSink } from "./store-sink.js";
import { readSummary, type StoreSummary } from "./store-summary.js";

/** File of the store, in the run directory. */
export const STORE_FILE_NAME = "capture.db";
/** File of the room that is kept for marks, beside it. */
const RESERVE_FILE_NAME = "capture.reserve";

export interface TokenCaptureStoreOptions {
  /** Directory on a local disk; created with mode 0700 when it is missing. */
  readonly dir: string;
  /** Opens the store on a network file system all the same. Default false. */
  readonly allowNetworkFs?: boolean;
  /** Bytes that the file may grow to, without its write-ahead log; a write beyond is `STORE_FAILED`. Default: no limit. */
  readonly maxSizeBytes?: number;
  /** Milliseconds since the Unix epoch. Default `Date.now`. */
  readonly now?: () => number;
  /** Waits that many milliseconds. Default: a timer. */
  readonly pause?: (ms: number) => Promise<void>;
}

export class TokenCaptureStore implements TokenSink, TokenSource, TokenLineage, RowWriter {
  readonly #commits: GroupCommit;
  readonly #connection: Connection;
  readonly #files: FileIdentity;
  readonly #operations: StoreOperations;
  readonly #pace: ConsumerPace;
  readonly #path: string;
  readonly #reader: StoreReader;
  readonly #reserve: StoreReserve;
  readonly #sink: StoreSink;

  /**
   * @throws STORE_FAILED when the directory cannot be written or the file is not a store.
   * @throws SCHEMA_TOO_NEW when a newer build wrote the file.
   * @throws NETWORK_FILE_SYSTEM when the directory is not local and that was not allowed.
   */
  constructor(options: TokenCaptureStoreOptions) {
    prepareDirectory(options.dir, options.allowNetworkFs ?? false);
    this.#path = join(options.dir, STORE_FILE_NAME);
    this.#connection = openConnection(this.#path, options.maxSizeBytes);
    try {
      // The log lives as long as any connection, so its identity is as fixed as the file's.
      this.#files = new FileIdentity([this.#path, `${this.#path}-wal`]);
      this.#commits = new GroupCommit(this.#connection, {
        // T3: after the commit, so a removal before it cannot be missed
        afterCommit: () => this.#files.check(),
      });
      this.#pace = new ConsumerPace(this.#connection, options.pause);
      this.#operations = new StoreOperations(this.#connection, options.now ?? Date.now);
      this.#reader = new StoreReader(this.#connection);
      const reserve = join(options.dir, RESERVE_FILE_NAME);
      this.#reserve = new StoreReserve(this.#connection, reserve, options.maxSizeBytes);
    } catch (error) {
      // Every statement is prepared here: a damaged schema shows now.
      this.#connection.close();
      throw storeFailure(error, this.#path);
    }
    this.#sink = new StoreSink(this);
  }

  /** Creates the rollout: dispatch calls this. @throws ROLLOUT_EXISTS when the id exists, in any state. */
  async open(rolloutId: string): Promise<{ epoch: number }> {
    this.#reserve.refill();
    const epoch = await this.#transact(() => this.#operations.open(rolloutId));
    if (epoch === undefined) throw refused("ROLLOUT_EXISTS", rolloutId, "exists already");
    return { epoch };
  }

  /**
   * Forgets what an attempt recorded and starts a new epoch, before a re-dispatch.
   * @throws ROLLOUT_FROZEN when its snapshot was not dropped yet.
   */
  async reset(rolloutId: string): Promise<{ epoch: number }> {
    const epoch = await this.#transact(() => this.#operations.reset(rolloutId));
    if (epoch === "frozen") throw refused("ROLLOUT_FROZEN", rolloutId, "is frozen and not dropped");
    return { epoch };
  }

  /** Marks every open rollout incomplete: their process died. Returns their ids. */
  async abandonOpen(): Promise<string[]> {
    return this.#transact(() => this.#operations.abandonOpen());
  }

  /**
   * Marks a rollout that was given up incomplete and freezes it: no call of it is recorded any more, and no snapshot of
   * it looks complete. Nothing when it was dropped.
   */
  async abandon(rolloutId: string): Promise<void> {
    await this.#guard(() => this.#pace.beforeLock());
    await this.#withReserve(() => this.#operations.abandon(rolloutId, randomUUID()));
  }

  /** Removes tombstones that were retired more than this long ago; returns how many. */
  async sweepRetired(olderThanMs: number): Promise<number> {
    return this.#transact(() => this.#operations.sweepRetired(olderThanMs));
  }

  /**
   * Removes the records of frozen rollouts that were not dropped: delivered masked, or never delivered. Their
   * tombstones stay.
   */
  async pruneFrozen(request: PruneFrozen): Promise<PrunedRollout[]> {
    return this.#transact(() => this.#operations.pruneFrozen(request));
  }

  /** Gives the room of removed records back to the disk. Writes the whole file anew: for a store that is not in use. */
  async compact(): Promise<void> {
    await this.#read(() => this.#connection.exec("VACUUM; PRAGMA wal_checkpoint(TRUNCATE)"));
  }

  async write(operation: StoreOperation): Promise<StoreAnswer> {
    const apply = (what: StoreOperation) => this.#operations.apply(what);
    if (operation.kind === "mark") return this.#withReserve(() => apply(operation));
    try {
      return await this.#transact(() => apply(operation));
    } catch (error) {
      if (!isFull(error)) throw error;
      // T6. Without even the reserve the caller's own count tells of the loss.
      await this.#withReserve(() => apply(markOf(operation))).catch(() => undefined);
      throw error;
    }
  }

  put(entry: TokenEntry): Promise<void> {
    return this.#sink.put(entry);
  }

  markIncomplete(rolloutId: string, modelCallId?: string): Promise<void> {
    return this.#sink.markIncomplete(rolloutId, modelCallId);
  }

  beginCall(rolloutId: string, modelCallId: string, prompt?: Int32Array): Promise<void> {
    return this.#sink.beginCall(rolloutId, modelCallId, prompt);
  }

  endCall(rolloutId: string, modelCallId: string, outcome: CallOutcome): Promise<void> {
    return this.#sink.endCall(rolloutId, modelCallId, outcome);
  }

  /** @throws ROLLOUT_RETIRED when the rollout was dropped. */
  async freeze(rolloutId: string): Promise<TokenCaptureSnapshot> {
    await this.#guard(() => this.#pace.beforeLock());
    const snapshotId = randomUUID();
    const alive = await this.#transact(() => this.#operations.freeze(rolloutId, snapshotId));
    // Read after the commit, so the write lock is held for one small update only.
    await this.#pace.beforeRead();
    const snapshot = alive ? await this.#read(() => this.#reader.snapshot(rolloutId)) : undefined;
    if (snapshot === undefined) throw refused("ROLLOUT_RETIRED", rolloutId, "was dropped");
    return snapshot;
  }

  /**
   * What is stored of a rollout now, in any state, without a write; undefined when it was never seen. For diagnosis:
   * an open rollout may still change, and the records of a dropped one are gone.
   */
  async peek(rolloutId: string): Promise<TokenCaptureSnapshot | undefined> {
    return this.#read(() => this.#reader.peek(rolloutId));
  }

  /** What is stored, in counts, without a write. */
  async summary(): Promise<StoreSummary> {
    return this.#read(() => readSummary(this.#connection));
  }

  async drop(
    rolloutId: string,
    snapshot: { readonly snapshotId: string; readonly version: number },
  ): Promise<boolean> {
    const { snapshotId, version } = snapshot;
    await this.#guard(() => this.#pace.beforeLock());
    return this.#transact(() => this.#operations.drop(rolloutId, snapshotId, version));
  }

  async candidates(rolloutId: string, key: LineageKey): Promise<readonly LineageNode[]> {
    return this.#read(() => this.#reader.candidates(rolloutId, key));
  }

  /** @throws DIGEST_MISMATCH when a stored byte of the call changed. */
  async cumulativeIds(rolloutId: string, modelCallId: string): Promise<Int32Array> {
    return this.#read(() => this.#reader.cumulativeIds(rolloutId, modelCallId));
  }

  async close(): Promise<void> {
    if (!this.#connection.open) return;
    this.#commits.flush();
    this.#connection.close();
  }

  /** T1, T2, T4 */
  #transact<T>(body: () => T): Promise<T> {
    return this.#guard(() => this.#commits.run(body));
  }

  /** T6: once more with the room that is kept for it, where there is no other. */
  async #withReserve<T>(body: () => T): Promise<T> {
    try {
      return await this.#transact(body);
    } catch (error) {
      if (!isFull(error)) throw error;
      this.#reserve.release();
      return this.#transact(body);
    }
  }

  #read<T>(body: () => T): Promise<T> {
    return this.#guard(() => {
      this.#files.check(); // T3
      return body();
    });
  }

  async #guard<T>(body: () => T | Promise<T>): Promise<T> {
    if (!this.#connection.open) throw closed(this.#path);
    try {
      return await body();
    } catch (error) {
      throw storeFailure(error, this.#path);
    }
  }
}

function markOf(operation: Exclude<StoreOperation, { kind: "mark" }>): StoreOperation {
  const { rolloutId, modelCallId } = operation.kind === "put" ? operation.row : operation;
  return { kind: "mark", rolloutId, modelCallId };
}

function refused(code: CaptureErrorCode, rolloutId: string, why: string): CaptureError {
  return new CaptureError(code, `Rollout ${JSON.stringify(rolloutId)} ${why}.`);
}

function closed(path: string): CaptureError {
  return new CaptureError("STORE_CLOSED", `The store ${JSON.stringify(path)} is closed.`);
}
