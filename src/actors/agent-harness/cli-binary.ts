import { execFile } from "node:child_process";
import fs from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import type { HarnessLogger } from "./context.js";
import { AgentHarnessError } from "./errors.js";
import type { ProcessOwner, WorkingDirectory } from "./harness.js";

/** A program of an npm package. */
export interface CliPackage {
  /** As people call it. */
  readonly title: string;
  /** npm package. */
  readonly name: string;
  /** The version that is tested, and installed. */
  readonly version: string;
  readonly alsoTested?: readonly string[];
  /** Name of the executable. */
  readonly bin: string;
}

const VERSION_TIMEOUT_MS = 30_000;
const execute = promisify(execFile);

/**
 * Absolute path of a CLI: the option, else the nearest installed package seen from the working directory or from here,
 * else PATH.
 * @throws HARNESS_NOT_FOUND saying how to install it.
 */
export async function resolveCli(cli: CliPackage, binary: string | undefined): Promise<string> {
  if (binary !== undefined) {
    const found = await findExecutable(binary);
    if (found !== null) return found;
    throw notInstalled(cli, `binary ${JSON.stringify(binary)} is no executable file`);
  }
  const here = path.dirname(fileURLToPath(import.meta.url));
  const found =
    (await inPackage(cli, process.cwd())) ??
    (await inPackage(cli, here)) ??
    (await onPath(cli.bin));
  if (found !== null) return found;
  throw notInstalled(cli, `${cli.title} is not installed`);
}

/** Absolute path of a program given as a path or by its name on PATH; null when there is none. */
export function findExecutable(program: string): Promise<string | null> {
  return program.includes(path.sep) ? executable(path.resolve(program)) : onPath(program);
}

/**
 * Runs `--version` as that user in that directory, and warns of a version that is not tested.
 * @throws HARNESS_NOT_FOUND when the program does not run so.
 */
export async function checkVersion(
  cli: CliPackage,
  command: readonly [string, ...string[]],
  directory: WorkingDirectory,
  owner: ProcessOwner | null,
  logger: HarnessLogger,
): Promise<void> {
  const version = await printedVersion(cli, command, directory, owner);
  const tested = [cli.version, ...(cli.alsoTested ?? [])];
  if (!version.split(/\s+/).some((word) => tested.includes(word)))
    logger.warn(
      { command, version },
      `${cli.title} is not ${tested.join(" or ")}, the version tested`,
    );
}

/**
 * Runs nothing of the program, but sees that this user could.
 * @throws HARNESS_NOT_FOUND when it could not.
 */
export async function checkExecutable(
  command: readonly [string, ...string[]],
  directory: WorkingDirectory,
  owner: ProcessOwner | null,
): Promise<void> {
  const program = command[command.length - 1] ?? "";
  const [check = "", ...args] = [...command.slice(0, -1), "test", "-x", program];
  const options = { cwd: directory.cwd, env: baseEnvironment(directory), ...(owner ?? {}) };
  try {
    await execute(check, args, options);
  } catch (error) {
    const who = owner === null ? "we" : `uid ${owner.uid}`;
    throw new AgentHarnessError("HARNESS_NOT_FOUND", `${who} cannot run ${program}`, {
      cause: error,
    });
  }
}

async function printedVersion(
  cli: CliPackage,
  command: readonly [string, ...string[]],
  directory: WorkingDirectory,
  owner: ProcessOwner | null,
): Promise<string> {
  const [program, ...args] = command;
  try {
    const { stdout, stderr } = await execute(program, [...args, "--version"], {
      cwd: directory.cwd,
      env: baseEnvironment(directory),
      timeout: VERSION_TIMEOUT_MS,
      killSignal: "SIGKILL",
      ...(owner ?? {}),
    });
    // pi prints it on standard error.
    return `${stdout} ${stderr}`.trim();
  } catch (error) {
    throw notInstalled(cli, `${command.join(" ")} --version does not run`, error);
  }
}

/** What every harness process gets: nothing of ours but the search path. */
export function baseEnvironment(directory: WorkingDirectory): Record<string, string> {
  return { PATH: searchPath(), HOME: directory.home, TMPDIR: directory.temp, TERM: "dumb" };
}

function searchPath(): string {
  return process.env["PATH"] ?? "/usr/local/bin:/usr/bin:/bin";
}

async function inPackage(cli: CliPackage, from: string): Promise<string | null> {
  for (let directory = from; ; directory = path.dirname(directory)) {
    const modules = path.join(directory, "node_modules");
    const installed = await fs
      .access(path.join(modules, cli.name))
      .then(() => true)
      .catch(() => false);
    if (installed) return executable(path.join(modules, ".bin", cli.bin));
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

export function notInstalled(cli: CliPackage, what: string, cause?: unknown): AgentHarnessError {
  const install = `npm install --save-dev ${cli.name}@${cli.version}`;
  return new AgentHarnessError("HARNESS_NOT_FOUND", `${what}; install it with: ${install}`, {
    cause,
  });
}
