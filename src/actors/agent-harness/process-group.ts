/**
 * Ends all processes of one rollout. It knows no child handles: the watchdog, another process, uses it too.
 *
 * G1. Nothing of a rollout survives: first its process group, then (Linux) every process whose environment or working
 *     directory names the rollout's directory, because harnesses start tools in groups of their own.
 */
import fs from "node:fs/promises";
import path from "node:path";
import { setTimeout as delay } from "node:timers/promises";

const SWEEP_PASSES = 20;
const SWEEP_PAUSE_MS = 25;

/** Signals a process group; a group that is gone is no error. */
export function signalGroup(pgid: number, signal: NodeJS.Signals): void {
  signalQuietly(-pgid, signal);
}

/** Kills what belongs to the rollout in `root` and resolves when nothing of it is found any more (G1). */
export async function killRollout(pgid: number | null, root: string): Promise<void> {
  if (pgid !== null) signalGroup(pgid, "SIGKILL");
  for (let pass = 0; pass < SWEEP_PASSES; pass++) {
    const pids = await processesOf(root);
    if (pids.length === 0) return;
    for (const pid of pids) signalQuietly(pid, "SIGKILL");
    await delay(SWEEP_PAUSE_MS);
  }
}

/** Ids of the live processes that run in `root` or were started with it in their environment; [] without `/proc`. */
async function processesOf(root: string): Promise<number[]> {
  const names = await fs.readdir("/proc").catch(() => []);
  const found: number[] = [];
  for (const name of names) {
    const pid = Number(name);
    if (!Number.isInteger(pid) || pid === process.pid) continue;
    if (await belongsTo(name, root)) found.push(pid);
  }
  return found;
}

async function belongsTo(pid: string, root: string): Promise<boolean> {
  try {
    const cwd = await fs.readlink(`/proc/${pid}/cwd`);
    if (cwd === root || cwd.startsWith(root + path.sep)) return true;
    const environment = await fs.readFile(`/proc/${pid}/environ`, "latin1");
    return environment.includes(`=${Buffer.from(root).toString("latin1")}${path.sep}`);
  } catch {
    return false;
  }
}

function signalQuietly(target: number, signal: NodeJS.Signals): void {
  try {
    process.kill(target, signal);
  } catch {
    // Gone already, or a zombie that is not ours to signal.
  }
}
