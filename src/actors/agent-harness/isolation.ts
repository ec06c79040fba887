/**
 * What of this machine a harness sees.
 *
 * I1. In `bwrap` it sees the system, its own program and its rollout's directory, and nothing else of the file system:
 *     no run directory, no tasks, no other rollout; no process of ours; and it dies with us.
 * I2. Its key never stands in an argument, where every user of the machine could read it.
 */
import fs from "node:fs/promises";
import path from "node:path";
import { findExecutable } from "./cli-binary.js";
import { AgentHarnessError } from "./errors.js";
import type { WorkingDirectory } from "./harness.js";

export type Isolation = "none" | "bwrap";

const SYSTEM = ["/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc"];

/**
 * The command that runs `binary` so; its arguments follow.
 *
 * @param readable Absolute paths that it may read beside the system and its own program.
 * @throws ISOLATION_FAILED when bubblewrap is not installed.
 */
export async function isolated(
  isolation: Isolation,
  binary: string,
  directory: WorkingDirectory,
  readable: readonly string[] = [],
): Promise<[string, ...string[]]> {
  if (isolation === "none") return [binary];
  const bwrap = await findExecutable("bwrap");
  if (bwrap === null)
    throw new AgentHarnessError(
      "ISOLATION_FAILED",
      "isolation: bwrap needs bubblewrap; install it with: apt-get install bubblewrap",
    );
  const program = await fs.realpath(binary);
  // Node stands outside the system's folders where a version manager installed it.
  const own = [programRoot(program), path.dirname(process.execPath)];
  return [
    bwrap,
    ...["--unshare-all", "--share-net", "--die-with-parent", "--new-session"],
    ...["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"],
    ...[...SYSTEM, ...own, ...readable].flatMap((folder) => ["--ro-bind-try", folder, folder]),
    ...["--bind", directory.root, directory.root, "--chdir", directory.cwd],
    "--",
    program,
  ];
}

/** The outermost `node_modules` above a package's program: its dependencies lie there. Else the program's own folder. */
function programRoot(program: string): string {
  const modules = `${path.sep}node_modules${path.sep}`;
  const at = program.indexOf(modules);
  return at < 0 ? path.dirname(program) : program.slice(0, at + modules.length - 1);
}
