/**
 * Retention of what runs leave behind: evidence of masked rollouts, and tombstones.
 *
 * Z1. A run that is in use is left alone.
 * Z2. Evidence of a rollout that was finished and not yet handed off is never removed.
 */
import fs from "node:fs";
import path from "node:path";
import { Journal } from "../actors/index.js";
import { acquireRunLock, isCaptureError, TokenCaptureStore } from "../capture/index.js";
import { runDirectories } from "./run-directories.js";

export interface PruneRequest {
  /** A run directory, or the folder of them: `token_id_capture.dir`. */
  readonly dir: string;
  /** Also the records of rollouts that were delivered masked. False: tombstones alone. */
  readonly masked: boolean;
  readonly olderThanMs: number;
}

export interface PrunedRun {
  readonly dir: string;
  /** Another process has it; nothing was done. */
  readonly inUse: boolean;
  /** Rollouts whose records were removed, and the bytes of those. */
  readonly rollouts: number;
  readonly bytes: number;
  readonly tombstones: number;
}

/** @throws ConfigError RUN_DIRECTORY when there is no store. */
export async function pruneStores(request: PruneRequest): Promise<PrunedRun[]> {
  const pruned: PrunedRun[] = [];
  for (const dir of runDirectories(request.dir)) pruned.push(await pruneRun(dir, request));
  return pruned;
}

async function pruneRun(dir: string, request: PruneRequest): Promise<PrunedRun> {
  const nothing = { dir, inUse: true, rollouts: 0, bytes: 0, tombstones: 0 };
  let lock: { release(): void };
  try {
    lock = acquireRunLock(dir);
  } catch (error) {
    if (isCaptureError(error, "RUN_LOCKED")) return nothing; // Z1
    throw error;
  }
  try {
    const store = new TokenCaptureStore({ dir });
    try {
      const { masked, olderThanMs } = request;
      const except = masked ? await notHandedOff(dir) : [];
      // Tombstones first: those that this makes are young.
      const tombstones = await store.sweepRetired(olderThanMs);
      const removed = masked ? await store.pruneFrozen({ olderThanMs, except }) : [];
      if (removed.length > 0) await store.compact();
      const bytes = removed.reduce((sum, rollout) => sum + rollout.bytes, 0);
      return { dir, inUse: false, rollouts: removed.length, bytes, tombstones };
    } finally {
      await store.close();
    }
  } finally {
    lock.release();
  }
}

/** Z2 */
async function notHandedOff(dir: string): Promise<string[]> {
  const file = path.join(dir, "journal.jsonl");
  if (!fs.existsSync(file)) return [];
  const journal = await Journal.open(file);
  const ids = [...journal.history.pending.values()].map(({ finished }) => finished.rolloutId);
  await journal.close();
  return ids;
}
