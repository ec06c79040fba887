/** N1. A training loop that is killed at any moment goes on; it trains every slot once and loses none. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, expect, it } from "vitest";

const fixture = (name: string) => fileURLToPath(new URL(`../fixtures/${name}`, import.meta.url));
const KILLS = Number(process.env["CRASH_RUNS"] ?? 4);
const STEPS = 5;
const TASKS = 4;
const GROUP_SIZE = 3;

let folder: string;
beforeEach(() => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), "corral-loop-"));
  fs.writeFileSync(
    path.join(folder, "config.json"),
    JSON.stringify({
      token_id_capture: { enabled: true, dir: path.join(folder, "captures") },
      responses_api_models: {
        policy: {
          engine: { kind: "embedded" },
          sampling_overrides: { temperature: 1, top_p: 1, top_k: 0, max_tokens: 64 },
        },
      },
      responses_api_agents: {
        loop: {
          kind: "function",
          module: `${fixture("orchestrator/harness.mjs")}#loop`,
          model: "policy",
          token_id_capture: true,
          concurrency: 3,
        },
      },
    }),
  );
});
afterEach(() => fs.rmSync(folder, { recursive: true }));

function startLoop(): {
  child: ChildProcess;
  lines: () => number;
  seen(text: string): Promise<void>;
} {
  const args = [folder, STEPS, TASKS, GROUP_SIZE].map(String);
  const child = spawn(process.execPath, [fixture("training-loop.mjs"), ...args], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  let text = "";
  const waiting = new Set<() => void>();
  child.stdout.on("data", (chunk) => {
    text += chunk;
    for (const wake of waiting) wake();
  });
  child.on("exit", () => {
    for (const wake of waiting) wake();
  });
  const seen = async (wanted: string) => {
    while (!text.includes(wanted)) {
      if (child.exitCode !== null) throw new Error(`the loop ended: ${text}`);
      await new Promise<void>((resolve) => waiting.add(resolve));
    }
  };
  return { child, lines: () => text.split("trained").length - 1, seen };
}

interface Trained {
  readonly step: number;
  readonly slot: string;
  readonly rolloutId: string;
  readonly trainable: boolean;
}

it("N1. trains every slot once and loses none over kill -9 at random moments", async () => {
  let kills = 0;
  for (;;) {
    const loop = startLoop();
    const ended = once(loop.child, "exit");
    if (kills === KILLS) {
      const [code] = await ended;
      expect(code).toBe(0);
      break;
    }
    await loop.seen("ready");
    // A random moment is what is tested: groups end some 50 to 300 ms after each other.
    await Promise.race([delay(Math.random() * 600), ended]);
    if (loop.child.exitCode !== null) break;
    loop.child.kill("SIGKILL");
    kills++;
    await ended;
  }
  const lines: Trained[] = fs
    .readFileSync(path.join(folder, "trained.jsonl"), "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
  expect(lines.filter(({ trainable }) => !trainable)).toEqual([]);
  expect(new Set(lines.map(({ slot }) => slot)).size).toBe(lines.length);
  expect(new Set(lines.map(({ rolloutId }) => rolloutId)).size).toBe(lines.length);
  for (let step = 0; step < STEPS; step++) {
    const slots = lines
      .filter((line) => line.step === step)
      .map(({ slot }) => {
        const { taskIndex, rolloutIndex } = JSON.parse(slot);
        return `${taskIndex}-${rolloutIndex}`;
      });
    expect(slots).toHaveLength(TASKS * GROUP_SIZE);
    expect(new Set(slots).size).toBe(TASKS * GROUP_SIZE);
  }
}, 600_000);
