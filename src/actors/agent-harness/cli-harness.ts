/**
 * A command line as a harness. What is special about one CLI is its profile; everything else is here.
 *
 * C1. The CLI gets the endpoint, the rollout's key and what it needs to run: nothing else of our environment.
 * C2. As root it runs as an unprivileged user when that works on this machine; the probe at start decides.
 * C3. A run of more turns than it may have is ended as MAX_TURNS, also where the CLI knows no such limit.
 */
import type { Readable } from "node:stream";
import type { RolloutFailure } from "../rollout.js";
import { baseEnvironment } from "./cli-binary.js";
import type { HarnessLogger } from "./context.js";
import type {
  Harness,
  HarnessLaunch,
  HarnessRun,
  ProcessOwner,
  WorkingDirectory,
} from "./harness.js";
import { type Isolation, isolated } from "./isolation.js";
import { type EndCause, runSubprocess, type SubprocessEnd } from "./subprocess.js";
import { type WorkingDirectories, writeHomeFiles } from "./working-directory.js";

/** `nobody` / `nogroup` on Debian, and an id no account has elsewhere. */
const UNPRIVILEGED: ProcessOwner = { uid: 65534, gid: 65534 };

/** One start of a CLI. */
export interface CliInvocation {
  /** All that the process gets, beside PATH, HOME, TMPDIR and TERM. */
  readonly env: Readonly<Record<string, string>>;
  readonly args: readonly string[];
  /** Undefined: `/dev/null`. */
  readonly stdin?: string | Readable;
  /** Also called with every line of standard output. */
  readonly onLine?: (line: string) => void;
  /** Written into the fresh home before the start: relative path → text. */
  readonly homeFiles?: Readonly<Record<string, string>>;
}

/** What a CLI said about its own run. */
export interface CliResult {
  readonly finalText: string | null;
  readonly finalMessageId: string | null;
  readonly failure: RolloutFailure | null;
}

/** Reads one run's standard output. */
export interface CliReader {
  line(text: string): void;
  /** Turns seen so far, as far as the CLI tells. */
  readonly turns: number;
  result(exitCode: number | null): CliResult;
}

/** Starts the CLI; settles when nothing of it is left. */
export type CliStart = (invocation: CliInvocation) => Promise<SubprocessEnd>;

export interface CliProfile {
  /** Absolute path of the program. */
  readonly binary: string;
  /** Starts the CLI once, as this launch needs it, and waits for its end. */
  drive(launch: HarnessLaunch, owner: ProcessOwner | null, start: CliStart): Promise<SubprocessEnd>;
  openReader(): CliReader;
  /** Resolves when the CLI runs so. @throws HARNESS_NOT_FOUND when it does not. */
  probe(
    command: readonly [string, ...string[]],
    directory: WorkingDirectory,
    owner: ProcessOwner | null,
  ): Promise<void>;
}

/** The options that every CLI has. */
export interface CliOptions {
  readonly maxOutputBytes: number;
  readonly killGraceMs: number;
  readonly isolation: Isolation;
  /** Absolute paths that an isolated harness may read beside its own program. */
  readonly readable: readonly string[];
}

export class CliHarness implements Harness {
  readonly owner: ProcessOwner | null;
  readonly hasHome = true;
  readonly #profile: CliProfile;
  readonly #options: CliOptions;
  readonly #directories: WorkingDirectories;

  private constructor(
    profile: CliProfile,
    options: CliOptions,
    owner: ProcessOwner | null,
    directories: WorkingDirectories,
  ) {
    this.#profile = profile;
    this.#options = options;
    this.owner = owner;
    this.#directories = directories;
  }

  /** @throws HARNESS_NOT_FOUND when the CLI does not start, ISOLATION_FAILED when it cannot be isolated here. */
  static async start(
    profile: CliProfile,
    options: CliOptions,
    directories: WorkingDirectories,
    logger: HarnessLogger,
  ): Promise<CliHarness> {
    const owner = await probedOwner(profile, options, directories, logger);
    return new CliHarness(profile, options, owner, directories);
  }

  async run(launch: HarnessLaunch): Promise<HarnessRun> {
    const { timeoutMs, maxTurns } = launch.request;
    const reader = this.#profile.openReader();
    const tooMany = new AbortController();
    const signal = AbortSignal.any([launch.signal, tooMany.signal]);
    const onLine = (line: string): void => {
      reader.line(line);
      if (reader.turns > maxTurns) tooMany.abort(); // C3
    };
    const end = await this.#profile.drive(launch, this.owner, (invocation) =>
      this.#start(launch, invocation, signal, onLine),
    );
    const said = reader.result(end.exitCode);
    const forced =
      end.cause === "cancelled" && !launch.signal.aborted
        ? tooManyTurns(maxTurns)
        : forcedEnd(end.cause, timeoutMs, this.#options.maxOutputBytes);
    return {
      finalText: forced === null ? said.finalText : null,
      finalMessageId: said.finalMessageId,
      failure: forced ?? said.failure,
      exitCode: end.exitCode,
      stderrTail: end.stderrTail,
    };
  }

  async #start(
    { directory, request }: HarnessLaunch,
    { args, env, stdin, onLine, homeFiles = {} }: CliInvocation,
    signal: AbortSignal,
    read: (line: string) => void,
  ): Promise<SubprocessEnd> {
    await writeHomeFiles(directory, homeFiles, this.owner);
    const { isolation, readable, maxOutputBytes, killGraceMs } = this.#options;
    const { binary } = this.#profile;
    const [command, ...wrapper] = await isolated(isolation, binary, directory, readable);
    return runSubprocess({
      command,
      args: [...wrapper, ...args],
      env: { ...baseEnvironment(directory), ...env }, // C1
      cwd: directory.cwd,
      root: directory.root,
      owner: this.owner,
      ...(stdin === undefined ? {} : { stdin }),
      timeoutMs: request.timeoutMs,
      killGraceMs,
      maxOutputBytes,
      signal,
      register: (pgid) => this.#directories.adopt(directory, pgid),
      onLine: (line) => {
        read(line);
        onLine?.(line);
      },
    });
  }
}

/** Reads a line of JSON; anything else is null. */
export function jsonLine(text: string): unknown {
  if (!text.startsWith("{")) return null;
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** C2. */
async function probedOwner(
  profile: CliProfile,
  { isolation, readable }: CliOptions,
  directories: WorkingDirectories,
  logger: HarnessLogger,
): Promise<ProcessOwner | null> {
  const { binary } = profile;
  const attempt = async (owner: ProcessOwner | null): Promise<ProcessOwner | null> => {
    const directory = await directories.create({}, { owner, hasHome: true });
    try {
      await profile.probe(await isolated(isolation, binary, directory, readable), directory, owner);
      return owner;
    } finally {
      await directories.remove(directory);
    }
  };
  if (process.getuid?.() !== 0) return attempt(null);
  try {
    return await attempt(UNPRIVILEGED);
  } catch (error) {
    logger.warn(
      { binary, err: error },
      `harnesses run as root: uid ${UNPRIVILEGED.uid} cannot run the CLI`,
    );
    return attempt(null);
  }
}

function tooManyTurns(limit: number): RolloutFailure {
  return { code: "MAX_TURNS", message: `more than ${limit} turns`, retryable: false };
}

/** The failure of a run that we ended. */
function forcedEnd(
  cause: EndCause,
  timeoutMs: number,
  maxOutputBytes: number,
): RolloutFailure | null {
  switch (cause) {
    case "exit":
      return null;
    case "deadline":
      return {
        code: "HARNESS_TIMEOUT",
        message: `no end within ${timeoutMs} ms`,
        retryable: false,
      };
    case "cancelled":
      return { code: "CANCELLED", message: "the rollout was cancelled", retryable: false };
    case "output_limit":
      return {
        code: "HARNESS_ERROR",
        message: `wrote more than ${maxOutputBytes} bytes`,
        retryable: false,
      };
  }
}
