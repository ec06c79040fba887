/** What SQLite's refusals mean to a person. */
import { CaptureError } from "./errors.js";

const MEANINGS: readonly (readonly [prefix: string, meaning: string])[] = [
  ["SQLITE_FULL", "the disk, or the size the store may have, is full"],
  ["SQLITE_READONLY", "the file or its directory is read-only"],
  ["SQLITE_CANTOPEN", "the file cannot be opened or created"],
  ["SQLITE_IOERR", "the disk refused a read or a write"],
  [
    "SQLITE_BUSY",
    "another process held the write lock for 10 seconds; the operation may be repeated",
  ],
  ["SQLITE_CORRUPT", "the file is damaged"],
  ["SQLITE_NOTADB", "the file is not an SQLite database"],
];

/** A `CaptureError` as it is; an error of SQLite as `STORE_FAILED` with its cause; anything else as it is. */
export function storeFailure(error: unknown, path: string): unknown {
  const code = sqliteCode(error);
  if (code === undefined) return error;
  const meaning = MEANINGS.find(([prefix]) => code.startsWith(prefix))?.[1];
  const what = meaning ?? (error as Error).message;
  const message = `The store ${JSON.stringify(path)} failed: ${what} (${code}).`;
  return new CaptureError("STORE_FAILED", message, { cause: error });
}

/** True for a failure that more room on the disk would mend. */
export function isFull(error: unknown): boolean {
  const code = sqliteCode(error instanceof CaptureError ? error.cause : error);
  return code === "SQLITE_FULL" || code === "SQLITE_IOERR_WRITE";
}

/** Decided by `code`: the class of better-sqlite3 would have to be imported. */
function sqliteCode(error: unknown): string | undefined {
  if (!(error instanceof Error) || !("code" in error) || typeof error.code !== "string") return;
  return error.code.startsWith("SQLITE_") ? error.code : undefined;
}
