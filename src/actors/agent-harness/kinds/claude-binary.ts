import { execFile } from "node:child_process";
import fs from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { AgentHarnessError } from "../errors.js";
import type { ProcessOwner, WorkingDirectory } from "../harness.js";

export const CLAUDE_CODE_VERSION = "2.1.197";
const VERSION_TIMEOUT_MS = 30_000;
const execute = promisify(execFile);

/**
 * Absolute path of the CLI: the option, else the nearest installed package seen from the working directory or from
 * here, else PATH.
 * @throws HARNESS_NOT_FOUND saying how to install it.
 */
export async function resolveClaudeBinary(binary: string | undefined): Promise<string> {
  if (binary !== undefined) {
    const found = binary.includes(path.sep)
      ? await executable(path.resolve(binary))
      : await onPath(binary);
    if (found !== null) return found;
    throw notFound(`binary ${JSON.stringify(binary)} is no executable file`);
  }
  const here = path.dirname(fileURLToPath(import.meta.url));
  const found =
    (await inPackage(process.cwd())) ?? (await inPackage(here)) ?? (await onPath("claude"));
  if (found !== null) return found;
  throw notFound("Claude Code is not installed");
}

/**
 * What `--version` prints, run as that user in that directory.
 * @throws HARNESS_NOT_FOUND when the program does not run so.
 */
export async function claudeVersion(
  binary: string,
  directory: WorkingDirectory,
  owner: ProcessOwner | null,
): Promise<string> {
  try {
    const { stdout } = await execute(binary, ["--version"], {
      cwd: directory.cwd,
      env: { PATH: searchPath(), HOME: directory.home, TMPDIR: directory.temp, TERM: "dumb" },
      timeout: VERSION_TIMEOUT_MS,
      killSignal: "SIGKILL",
      ...(owner ?? {}),
    });
    return stdout.trim();
  } catch (error) {
    throw notFound(`${binary} --version does not run`, error);
  }
}

export function searchPath(): string {
  return process.env["PATH"] ?? "/usr/local/bin:/usr/bin:/bin";
}

async function inPackage(from: string): Promise<string | null> {
  for (let directory = from; ; directory = path.dirname(directory)) {
    const modules = path.join(directory, "node_modules");
    const installed = await fs
      .access(path.join(modules, "@anthropic-ai", "claude-code"))
      .then(() => true)
      .catch(() => false);
    if (installed) return executable(path.join(modules, ".bin", "claude"));
    if (directory === path.dirname(directory)) return null;
  }
}

async function onPath(name: string): Promise<string | null> {
  for (const directory of searchPath().split(path.delimiter)) {
    const found = directory === "" ? null : await executable(path.join(directory, name));
    if (found !== null) return found;
  }
  return null;
}

async function executable(file: string): Promise<string | null> {
  try {
    await fs.access(file, fs.constants.X_OK);
    return (await fs.stat(file)).isFile() ? file : null;
  } catch {
    return null;
  }
}

function notFound(what: string, cause?: unknown): AgentHarnessError {
  const install = `npm install --save-dev @anthropic-ai/claude-code@${CLAUDE_CODE_VERSION}`;
  return new AgentHarnessError("HARNESS_NOT_FOUND", `${what}; install it with: ${install}`, {
    cause,
  });
}
