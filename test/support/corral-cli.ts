/** Runs the built `corral` command as a user would. */
import { type ChildProcess, spawn } from "node:child_process";
import { fileURLToPath } from "node:url";

const main = fileURLToPath(new URL("../../dist/cli/main.js", import.meta.url));

export interface CorralResult {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface CorralProcess {
  readonly child: ChildProcess;
  readonly result: Promise<CorralResult>;
  /** Resolves when stderr holds the text; rejects when the process ends before. */
  seen(text: string): Promise<void>;
}

export function startCorral(
  args: readonly string[],
  options: { readonly cwd?: string; readonly env?: NodeJS.ProcessEnv } = {},
): CorralProcess {
  const child = spawn(process.execPath, [main, ...args], {
    cwd: options.cwd,
    env: { ...process.env, ...options.env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const text = { stdout: "", stderr: "" };
  const waiting = new Set<() => void>();
  for (const name of ["stdout", "stderr"] as const)
    child[name].setEncoding("utf8").on("data", (chunk: string) => {
      text[name] += chunk;
      for (const look of waiting) look();
    });
  const result = new Promise<CorralResult>((resolve) => {
    child.once("close", (code, signal) => resolve({ code, signal, ...text }));
  });
  const seen = (wanted: string) =>
    new Promise<void>((resolve, reject) => {
      const look = () => {
        if (!text.stderr.includes(wanted)) return;
        waiting.delete(look);
        resolve();
      };
      waiting.add(look);
      look();
      void result.then(({ stderr }) => reject(new Error(`ended without "${wanted}": ${stderr}`)));
    });
  return { child, result, seen };
}

export function runCorral(...args: Parameters<typeof startCorral>): Promise<CorralResult> {
  return startCorral(...args).result;
}
