/**
 * Ends all processes of one rollout. It knows no child handles: the watchdog, another process, uses it too.
 *
 * G1. Nothing of a rollout survives: first its process group, then (Linux) every process whose environment or working
 *     directory names the rollout's directory, because harnesses start tools in groups of their own.
 * G2. A walk over `/proc` answers only for rollouts that ended before it began.
 * G3. Walks take a bounded share of the thread: rollouts that end one after the other wait a little and share one.
 */
import { readFileSync, readlinkSync } from "node:fs";
import { readdir } from "node:fs/promises";
import path from "node:path";
import { setTimeout as delay, setImmediate as nextTurn } from "node:timers/promises";

const SWEEP_PASSES = 20;
const SWEEP_PAUSE_MS = 25;
/** G3. After a walk the next one waits so many times as long as it took, and never longer than the limit. */
const REST_PER_WALK = 9;
const MAX_REST_MS = 100;

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

interface Sweep {
  readonly root: string;
  resolve(pids: number[]): void;
}

let waiting: Sweep[] = [];
let sweeping = false;
let restUntilMs = 0;

/**
 * Ids of the live processes that run in `root` or were started with it in their environment; [] without `/proc`.
 * Rollouts that end together share one walk over `/proc`; one that comes during a walk waits for the next (G2).
 */
function processesOf(root: string): Promise<number[]> {
  return new Promise((resolve) => {
    waiting.push({ root, resolve });
    if (!sweeping) void sweep();
  });
}

async function sweep(): Promise<void> {
  sweeping = true;
  while (waiting.length > 0) {
    const restMs = restUntilMs - performance.now();
    if (restMs > 0) await delay(restMs);
    const sweeps = waiting.map((one) => ({ ...one, found: [] as number[] }));
    waiting = [];
    const walkedMs = await walk((pid, traces) => {
      for (const one of sweeps) if (traces.name(one.root)) one.found.push(pid);
    });
    restUntilMs = performance.now() + Math.min(MAX_REST_MS, REST_PER_WALK * walkedMs); // G3
    for (const { resolve, found } of sweeps) resolve(found);
  }
  sweeping = false;
}

/** Shows the traces of every other process; returns the time that the reads took, ms. */
async function walk(show: (pid: number, traces: Traces) => void): Promise<number> {
  const names = await readdir("/proc").catch(() => []);
  const others = names.filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid);
  let tookMs = 0;
  for (let from = 0; from < others.length; from += READS_PER_TURN) {
    // Reads of `/proc` are short; the thread's other rollouts get their turn between them.
    await nextTurn();
    const startMs = performance.now();
    for (const name of others.slice(from, from + READS_PER_TURN))
      show(Number(name), tracesOf(name));
    tookMs += performance.now() - startMs;
  }
  return tookMs;
}

const READS_PER_TURN = 16;

interface Traces {
  name(root: string): boolean;
}

/** What a process tells of where it belongs; "" where it is gone or another user's. */
function tracesOf(pid: string): Traces {
  const cwd = textOf(() => readlinkSync(`/proc/${pid}/cwd`));
  const environment = textOf(() => readFileSync(`/proc/${pid}/environ`, "latin1"));
  return {
    name: (root) => {
      const value = `=${Buffer.from(root).toString("latin1")}`;
      return (
        cwd === root ||
        cwd.startsWith(root + path.sep) ||
        environment.includes(value + path.sep) ||
        environment.includes(`${value}\0`)
      );
    },
  };
}

function textOf(read: () => string): string {
  try {
    return read();
  } catch {
    return "";
  }
}

function signalQuietly(target: number, signal: NodeJS.Signals): void {
  try {
    process.kill(target, signal);
  } catch {
    // Gone already, or a zombie that is not ours to signal.
  }
}
