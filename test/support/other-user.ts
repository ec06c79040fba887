/** A user without rights, for tests that the superuser runs. */
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";

/** `nobody` of Debian. */
export const OTHER_USER = { uid: 65_534, gid: 65_534 } as const;

export const isRoot = process.getuid?.() === 0;

/** False where a folder above this checkout is closed to other users: then nothing of it can run as one. */
export const otherUserCanRun =
  isRoot && spawnSync("cat", [fileURLToPath(import.meta.url)], OTHER_USER).status === 0;
