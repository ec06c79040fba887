/**
 * How a verifier reads what a harness left: harness output is hostile input, and a verifier runs with our rights.
 *
 * V1. Only a regular file below the working directory is read: no symlink may lead out of it, at any level, and a
 *     FIFO or device is never opened for long.
 * V2. At most 1 MiB is read; a longer file is refused, never cut.
 */
import { constants } from "node:fs";
import fs from "node:fs/promises";
import path from "node:path";
import { AgentHarnessError } from "./errors.js";

export const WORK_FILE_MAX_BYTES = 1024 * 1024;

/**
 * UTF-8 text of a file of the working directory; null when there is no such file.
 * @throws WORK_FILE_REFUSED when it is no regular file, leads out of the directory or is larger than 1 MiB.
 */
export async function readWorkFile(workDir: string, relativePath: string): Promise<string | null> {
  const refused = (why: string): AgentHarnessError =>
    new AgentHarnessError("WORK_FILE_REFUSED", `work file ${JSON.stringify(relativePath)} ${why}`);
  if (relativePath === "" || relativePath.includes("\0") || path.isAbsolute(relativePath))
    throw refused("is not a relative path");
  const root = await fs.realpath(workDir);
  const real = await realpathOrNull(path.join(root, relativePath), refused);
  if (real === null) return null;
  if (!real.startsWith(root + path.sep)) throw refused("lies outside the working directory");
  // The real path holds no symlink; O_NOFOLLOW and O_NONBLOCK keep it so should something still change it (V1).
  const file = await fs.open(
    real,
    constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK,
  );
  try {
    const stat = await file.stat();
    if (!stat.isFile()) throw refused("is not a regular file");
    const bytes = Buffer.alloc(Math.min(stat.size, WORK_FILE_MAX_BYTES) + 1);
    let length = 0;
    for (;;) {
      const { bytesRead } = await file.read(bytes, length, bytes.length - length, length);
      length += bytesRead;
      if (bytesRead === 0) return bytes.toString("utf8", 0, length);
      if (length === bytes.length) throw refused(`is larger than ${WORK_FILE_MAX_BYTES} bytes`); // V2
    }
  } finally {
    await file.close();
  }
}

async function realpathOrNull(
  target: string,
  refused: (why: string) => AgentHarnessError,
): Promise<string | null> {
  try {
    return await fs.realpath(target);
  } catch (error) {
    const code = error instanceof Error && "code" in error ? error.code : undefined;
    if (code === "ENOENT" || code === "ENOTDIR") return null;
    throw refused(`cannot be resolved (${String(code)})`);
  }
}
