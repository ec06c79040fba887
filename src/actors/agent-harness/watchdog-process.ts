/**
 * The process that cleans up when the one that runs harnesses dies, `kill -9` included. Entry of a child process.
 *
 * Input lines: `+<pgid> <directory>` registers (pgid 0: no process yet) and is answered with the same line;
 * `-<directory>` forgets. End of input means that the parent is gone.
 *
 * W1. When input ends, every registered group is killed and every registered directory removed; then it exits.
 */
import { createInterface } from "node:readline";
import { killRollout, signalGroup } from "./process-group.js";
import { removeTree } from "./remove-tree.js";

const REGISTER = /^\+(\d+) (.+)$/;
const registered = new Map<string, number>();

// The parent may die before it reads an answer.
process.stdout.on("error", () => {});

const lines = createInterface({ input: process.stdin });
lines.on("line", (line) => {
  if (line.startsWith("-")) {
    registered.delete(line.slice(1));
    return;
  }
  const [, pgid, directory] = REGISTER.exec(line) ?? [];
  if (pgid === undefined || directory === undefined) return;
  registered.set(directory, Number(pgid));
  process.stdout.write(`${line}\n`);
});
lines.once("close", () => {
  void cleanUp().finally(() => process.exit(0));
});

async function cleanUp(): Promise<void> {
  for (const pgid of registered.values()) if (pgid > 0) signalGroup(pgid, "SIGKILL");
  await Promise.allSettled([...registered].map(([directory, pgid]) => endRollout(directory, pgid)));
}

async function endRollout(directory: string, pgid: number): Promise<void> {
  await killRollout(pgid > 0 ? pgid : null, directory);
  await removeTree(directory);
}
