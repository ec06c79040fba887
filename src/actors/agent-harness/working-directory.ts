/**
 * The directories of one rollout: fresh, private, registered with the watchdog before they exist.
 *
 * D1. A directory is registered before it is made and forgotten only after it is removed: no death of ours leaves one.
 * D2. Its path has one length and shape for all rollouts, so prompts that name it stay comparable.
 */
import { randomBytes } from "node:crypto";
import { mkdirSync, rmdirSync } from "node:fs";
import fs from "node:fs/promises";
import path from "node:path";
import type { Harness, ProcessOwner, WorkingDirectory } from "./harness.js";
import { removeTree } from "./remove-tree.js";
import { checkTaskFiles } from "./task-files.js";
import type { Watchdog } from "./watchdog.js";

export class WorkingDirectories {
  readonly #tempRoot: string;
  readonly #watchdog: Watchdog;

  private constructor(tempRoot: string, watchdog: Watchdog) {
    this.#tempRoot = tempRoot;
    this.#watchdog = watchdog;
  }

  static async open(tempRoot: string, watchdog: Watchdog): Promise<WorkingDirectories> {
    return new WorkingDirectories(await fs.realpath(tempRoot), watchdog);
  }

  /**
   * Makes a rollout's directory with the task's files in `cwd`, all owned by the harness's owner.
   * @throws TASK_INVALID when a file's path is refused.
   */
  async create(
    files: Readonly<Record<string, string>>,
    { owner, hasHome }: Pick<Harness, "owner" | "hasHome">,
  ): Promise<WorkingDirectory> {
    checkTaskFiles(files);
    const root = path.join(this.#tempRoot, `corral-${randomBytes(6).toString("hex")}`); // D2
    const directory = {
      root,
      cwd: hasHome ? path.join(root, "w") : root,
      home: path.join(root, "h"),
      temp: path.join(root, "t"),
    };
    await this.#watchdog.register(root, null); // D1
    try {
      // One system call each: a way through the thread pool would cost many times as much.
      const below = hasHome ? [directory.cwd, directory.home, directory.temp] : [];
      for (const each of [root, ...below]) mkdirSync(each, { mode: 0o700 });
      for (const [name, text] of Object.entries(files)) await writeBelow(directory.cwd, name, text);
      if (owner !== null) await giveAway(root, owner);
      return directory;
    } catch (error) {
      await this.remove(directory);
      throw error;
    }
  }

  /** Has the watchdog kill this group should we die. */
  async adopt(directory: WorkingDirectory, pgid: number): Promise<void> {
    await this.#watchdog.register(directory.root, pgid);
  }

  async remove(directory: WorkingDirectory): Promise<void> {
    if (!removedEmpty(directory.root)) await removeTree(directory.root);
    this.#watchdog.unregister(directory.root);
  }
}

/** Most runs of a function leave nothing behind: then there is no tree to walk. */
function removedEmpty(root: string): boolean {
  try {
    rmdirSync(root);
    return true;
  } catch {
    return false;
  }
}

/** Writes files into a home that no process of the rollout has seen yet. */
export async function writeHomeFiles(
  { home }: WorkingDirectory,
  files: Readonly<Record<string, string>>,
  owner: ProcessOwner | null,
): Promise<void> {
  for (const [name, text] of Object.entries(files)) await writeBelow(home, name, text);
  if (owner !== null) await giveAway(home, owner);
}

async function writeBelow(directory: string, name: string, text: string): Promise<void> {
  const target = path.join(directory, name);
  await fs.mkdir(path.dirname(target), { recursive: true });
  await fs.writeFile(target, text, { flag: "wx" });
}

/** Depth first, so the tree opens to its owner only when it is whole. */
async function giveAway(target: string, owner: ProcessOwner): Promise<void> {
  for (const entry of await fs.readdir(target, { withFileTypes: true })) {
    const child = path.join(target, entry.name);
    if (entry.isDirectory()) await giveAway(child, owner);
    else await fs.lchown(child, owner.uid, owner.gid);
  }
  await fs.lchown(target, owner.uid, owner.gid);
}
