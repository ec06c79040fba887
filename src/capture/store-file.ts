/**
 * The directory and the files under a store: may it lie there, and is it still the same one.
 *
 * F1. A directory that cannot be written gives one error that names it.
 * F2. A network file system is refused unless it was allowed: SQLite's locks do not hold there, and it does not say so.
 * F3. A file that was removed or replaced under an open connection is noticed: SQLite itself goes on acknowledging
 *     writes into the unlinked file.
 */
import { accessSync, constants, mkdirSync, statfsSync, statSync } from "node:fs";
import { CaptureError } from "./errors.js";

/** `statfs(2)` magic numbers. */
const NETWORK_FILE_SYSTEMS: ReadonlyMap<number, string> = new Map([
  [0x6969, "nfs"],
  [0xff534d42, "cifs"],
  [0xfe534d42, "smb2"],
  [0x01021997, "9p"],
  [0x65735546, "fuse"],
  [0x0bd00bd0, "lustre"],
  [0x00c36400, "ceph"],
]);

/**
 * Creates the directory (mode 0700) when it is missing and checks that a store can live in it.
 * @throws STORE_FAILED when it cannot be created or written (F1).
 * @throws NETWORK_FILE_SYSTEM (F2)
 */
export function prepareDirectory(dir: string, allowNetworkFs: boolean): void {
  try {
    mkdirSync(dir, { recursive: true, mode: 0o700 });
    accessSync(dir, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch (cause) {
    throw new CaptureError(
      "STORE_FAILED",
      `The store directory ${JSON.stringify(dir)} cannot be created or written ` +
        `(${(cause as NodeJS.ErrnoException).code ?? String(cause)}); every user of a store, ` +
        "readers too, needs write permission on it.",
      { cause },
    );
  }
  checkFileSystem(dir, statfsSync(dir).type, allowNetworkFs);
}

/** @throws NETWORK_FILE_SYSTEM when the magic number is that of a network file system and none is allowed (F2). */
export function checkFileSystem(dir: string, magic: number, allowNetworkFs: boolean): void {
  const name = NETWORK_FILE_SYSTEMS.get(magic >>> 0);
  if (name === undefined || allowNetworkFs) return;
  throw new CaptureError(
    "NETWORK_FILE_SYSTEM",
    `The store directory ${JSON.stringify(dir)} lies on a network file system (${name}), where SQLite cannot lock ` +
      "safely. Choose a directory on a local disk, or set allow_network_fs if only one process ever opens it.",
  );
}

/** Which files a connection has open, by device and inode. */
export class FileIdentity {
  readonly #paths: readonly string[];
  readonly #known: readonly string[];

  /** Files that must exist now, and stay the same ones: the database and its write-ahead log. */
  constructor(paths: readonly string[]) {
    this.#paths = paths;
    this.#known = paths.map(identityOf);
  }

  /**
   * Costs a `stat` call for each file: 5 to 9 µs for two, on ext4.
   * @throws STORE_CLOSED when a file was removed or replaced (F3).
   */
  check(): void {
    this.#paths.forEach((path, index) => {
      if (identityOf(path) === this.#known[index]) return;
      throw new CaptureError(
        "STORE_CLOSED",
        `${JSON.stringify(path)} was removed or replaced while the store was open; nothing more is written.`,
      );
    });
  }
}

function identityOf(path: string): string {
  const stat = statSync(path, { throwIfNoEntry: false });
  return stat === undefined ? "missing" : `${stat.dev}:${stat.ino}`;
}
