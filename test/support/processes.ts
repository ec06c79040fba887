/** What `/proc` says of running processes (Linux). */
import fs from "node:fs";

/** Live processes (zombies have no command line) whose environment or working directory names the directory. */
export function processesOf(root: string): string[] {
  return processIds().filter((pid) => {
    try {
      if (fs.readFileSync(`/proc/${pid}/cmdline`, "latin1") === "") return false;
      if (fs.readlinkSync(`/proc/${pid}/cwd`).startsWith(root)) return true;
      return fs.readFileSync(`/proc/${pid}/environ`, "latin1").includes(root);
    } catch {
      return false;
    }
  });
}

export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return !fs.readFileSync(`/proc/${pid}/stat`, "latin1").includes(") Z ");
  } catch {
    return false;
  }
}

/** Ids of the children of a process, their children and so on. */
export function descendantsOf(pid: number): number[] {
  const parents = new Map<number, number>();
  for (const id of processIds()) {
    try {
      // The name may hold spaces and parentheses; the parent follows the state after its end.
      const [, parent] = fs.readFileSync(`/proc/${id}/stat`, "latin1").split(/\) . /);
      parents.set(Number(id), Number.parseInt(parent ?? "", 10));
    } catch {
      // Gone meanwhile.
    }
  }
  const found = [pid];
  for (const each of found)
    for (const [child, parent] of parents) if (parent === each) found.push(child);
  return found.slice(1);
}

function processIds(): string[] {
  return fs.readdirSync("/proc").filter((name) => /^\d+$/.test(name));
}
