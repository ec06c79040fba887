// Runs the victim, kills it with SIGKILL at a random moment, and returns what it had said by then.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const VICTIM = fileURLToPath(new URL("victim.mjs", import.meta.url));

/** Lines of the victim, killed after a random one of the first `within` put acknowledgements. */
export async function killRun(
  dir,
  { workers = 4, inFlight = 8, within = 1500, random = Math.random } = {},
) {
  const killAfter = 1 + Math.floor(random() * within);
  const child = spawn(process.execPath, [VICTIM, dir, workers, inFlight], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const lines = [];
  let puts = 0;
  const closed = once(child, "close");
  for await (const line of createInterface({ input: child.stdout })) {
    lines.push(line);
    if (line.startsWith("put ") && ++puts === killAfter) child.kill("SIGKILL");
  }
  await closed;
  if (child.signalCode !== "SIGKILL")
    throw new Error(`the victim ended by itself: ${child.exitCode}`);
  return lines;
}

/** What each rollout had come to, by its own words. */
export function historyOf(lines) {
  const rollouts = new Map();
  for (const line of lines) {
    const [what, id, call] = line.split(" ");
    if (!rollouts.has(id))
      rollouts.set(id, { said: new Set(), begun: new Set(), put: new Set(), ended: new Set() });
    const rollout = rollouts.get(id);
    if (what === "beginning") rollout.begun.add(call);
    else if (what === "put") rollout.put.add(call);
    else if (what === "ended") rollout.ended.add(call);
    else rollout.said.add(what);
  }
  return rollouts;
}
