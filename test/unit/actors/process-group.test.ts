import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { killRollout } from "../../../src/actors/agent-harness/process-group.js";

const base = realpathSync(mkdtempSync(path.join(tmpdir(), "corral-sweep-")));
const children: ChildProcess[] = [];

afterEach(() => {
  for (const child of children.splice(0)) child.kill("SIGKILL");
  rmSync(base, { recursive: true, force: true });
});

/** A program in a group of its own, as a harness's daemon is. */
async function program(cwd: string, env: NodeJS.ProcessEnv): Promise<ChildProcess> {
  mkdirSync(cwd, { recursive: true });
  const options = { cwd, env: { PATH: process.env["PATH"], ...env }, detached: true } as const;
  const child = spawn("sleep", ["600"], { ...options, stdio: "ignore" });
  children.push(child);
  await once(child, "spawn");
  return child;
}

const endOf = async (child: ChildProcess) => {
  if (child.signalCode === null) await once(child, "exit");
  return child.signalCode;
};

describe.runIf(process.platform === "linux")("killRollout", () => {
  test("G1 finds a program by its directory, and by a variable that is, or lies below, the rollout's", async () => {
    const root = path.join(base, "a");
    const elsewhere = path.join(base, "elsewhere");
    const ours = await Promise.all([
      program(root, {}),
      program(path.join(root, "deep"), {}),
      program(elsewhere, { HOME: root }),
      program(elsewhere, { HOME: path.join(root, "h"), LAST: "x" }),
    ]);
    const other = await program(path.join(base, "ab"), { HOME: `${root}b` });
    await killRollout(null, root);
    expect(await Promise.all(ours.map(endOf))).toEqual(ours.map(() => "SIGKILL"));
    expect(other.signalCode).toBeNull();
  });

  test("G2 rollouts that end together, or during another's walk, are each answered", async () => {
    const roots = Array.from({ length: 6 }, (_, index) => path.join(base, `r${index}`));
    const programs = await Promise.all(roots.map((root) => program(root, {})));
    const first = killRollout(null, roots[0] ?? "");
    await new Promise((resolve) => setImmediate(resolve));
    await Promise.all([first, ...roots.slice(1).map((root) => killRollout(null, root))]);
    expect(await Promise.all(programs.map(endOf))).toEqual(programs.map(() => "SIGKILL"));
  });

  test("G3 walks one after the other leave the thread most of its time", async () => {
    const started = performance.now();
    const cpu = process.cpuUsage();
    for (let index = 0; index < 50; index++) await killRollout(null, path.join(base, "nobody"));
    const { user, system } = process.cpuUsage(cpu);
    expect((user + system) / 1000).toBeLessThan(0.5 * (performance.now() - started));
  });
});
