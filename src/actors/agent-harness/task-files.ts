import path from "node:path";
import { AgentHarnessError } from "./errors.js";

/** Source: NAME_MAX of Linux and macOS file systems. */
const NAME_MAX_BYTES = 255;
/** PATH_MAX of macOS is 1024; the working directory takes a part of it. */
const PATH_MAX_BYTES = 900;

/**
 * Checks the keys of a task's `files` before anything runs.
 * @throws TASK_INVALID naming the key, when it is not a relative, normalised path inside the working directory, or
 * when one key needs a directory where another puts a file.
 */
export function checkTaskFiles(files: Readonly<Record<string, string>> | undefined): void {
  const keys = Object.keys(files ?? {});
  const taken = new Set(keys);
  for (const key of keys) {
    const reason = refusal(key) ?? collision(key, taken);
    if (reason !== null) {
      throw new AgentHarnessError(
        "TASK_INVALID",
        `files key ${JSON.stringify(key)} ${reason}; allowed is a relative, normalised path such as "notes/a.txt"`,
      );
    }
    if (typeof files?.[key] !== "string") {
      throw new AgentHarnessError("TASK_INVALID", `files ${JSON.stringify(key)} is not a string`);
    }
  }
}

function refusal(key: string): string | null {
  if (key === "") return "is empty";
  if (key.includes("\0")) return "holds a NUL byte";
  if (key.includes("\\")) return "holds a backslash";
  if (/^[A-Za-z]:/.test(key)) return "names a drive";
  if (path.posix.isAbsolute(key)) return "is absolute";
  if (key.split("/").includes("..")) return "leaves the working directory";
  if (key === "." || key.endsWith("/") || path.posix.normalize(key) !== key)
    return "is not normalised";
  if (key.split("/").some((name) => Buffer.byteLength(name) > NAME_MAX_BYTES))
    return `has a name longer than ${NAME_MAX_BYTES} bytes`;
  if (Buffer.byteLength(key) > PATH_MAX_BYTES) return `is longer than ${PATH_MAX_BYTES} bytes`;
  return null;
}

function collision(key: string, taken: ReadonlySet<string>): string | null {
  for (let parent = path.posix.dirname(key); parent !== "."; parent = path.posix.dirname(parent)) {
    if (taken.has(parent)) return `lies below the file ${JSON.stringify(parent)}`;
  }
  return null;
}
