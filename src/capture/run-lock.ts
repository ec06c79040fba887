/** One process per run directory. */
import { join } from "node:path";
import Database from "better-sqlite3";
import { CaptureError } from "./errors.js";
import { storeFailure } from "./store-failure.js";
import { prepareDirectory } from "./store-file.js";

/** File of the lock, in the run directory. Nothing else may open it: closing any other descriptor frees the lock. */
const LOCK_FILE_NAME = "lock.db";

/**
 * Holds an exclusive SQLite lock on `lock.db` until it is released or the process dies, however it dies.
 * @throws RUN_LOCKED at once when another process, or this one, holds it.
 * @throws STORE_FAILED when the directory cannot be written.
 */
export function acquireRunLock(dir: string): { release(): void } {
  // Locks of a network file system are the user's decision where the store is opened.
  prepareDirectory(dir, true);
  const path = join(dir, LOCK_FILE_NAME);
  let connection: Database.Database | undefined;
  try {
    connection = new Database(path, { timeout: 0 });
    connection.exec("BEGIN EXCLUSIVE");
    const held = connection;
    return { release: () => held.close() };
  } catch (error) {
    connection?.close();
    if (error instanceof Error && "code" in error && error.code === "SQLITE_BUSY") {
      throw new CaptureError(
        "RUN_LOCKED",
        `The run directory ${JSON.stringify(dir)} is in use by another process.`,
        { cause: error },
      );
    }
    throw storeFailure(error, path);
  }
}
