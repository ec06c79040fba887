/**
 * The Claude Code CLI as a harness, in the profile that keeps its calls one growing conversation: no cache marks, no
 * compaction, no thinking, no title call, four tools.
 *
 * C1. The CLI gets the endpoint, the rollout's key and what it needs to run: nothing else of our environment.
 * C2. As root it runs as an unprivileged user when that works on this machine; the probe at start decides.
 */

import type { RolloutFailure } from "../../rollout.js";
import { ClaudeResultReader } from "../claude-result.js";
import type { HarnessLogger } from "../context.js";
import type { Harness, HarnessLaunch, HarnessRun, ProcessOwner } from "../harness.js";
import type { ClaudeCodeOptions } from "../options.js";
import { type EndCause, runSubprocess } from "../subprocess.js";
import type { WorkingDirectories } from "../working-directory.js";
import {
  CLAUDE_CODE_VERSION,
  claudeVersion,
  resolveClaudeBinary,
  searchPath,
} from "./claude-binary.js";

/** `nobody` / `nogroup` on Debian, and an id no account has elsewhere. */
const UNPRIVILEGED: ProcessOwner = { uid: 65534, gid: 65534 };
/** A single argument may hold 128 KiB on Linux; a longer prompt goes through standard input. */
const PROMPT_ARGUMENT_MAX_BYTES = 100 * 1024;

export class ClaudeCodeHarness implements Harness {
  readonly owner: ProcessOwner | null;
  readonly #binary: string;
  readonly #options: ClaudeCodeOptions;
  readonly #directories: WorkingDirectories;

  private constructor(
    binary: string,
    owner: ProcessOwner | null,
    options: ClaudeCodeOptions,
    directories: WorkingDirectories,
  ) {
    this.#binary = binary;
    this.owner = owner;
    this.#options = options;
    this.#directories = directories;
  }

  /** @throws HARNESS_NOT_FOUND when the CLI is not installed or does not start. */
  static async start(
    options: ClaudeCodeOptions,
    directories: WorkingDirectories,
    logger: HarnessLogger,
  ): Promise<ClaudeCodeHarness> {
    const binary = await resolveClaudeBinary(options.binary);
    const { owner, version } = await probe(binary, directories, logger);
    if (!version.startsWith(`${CLAUDE_CODE_VERSION} `) && version !== CLAUDE_CODE_VERSION)
      logger.warn(
        { binary, version },
        `Claude Code is not ${CLAUDE_CODE_VERSION}, the version tested`,
      );
    return new ClaudeCodeHarness(binary, owner, options, directories);
  }

  async run(launch: HarnessLaunch): Promise<HarnessRun> {
    const { directory, request } = launch;
    const reader = new ClaudeResultReader();
    const long = Buffer.byteLength(launch.prompt) > PROMPT_ARGUMENT_MAX_BYTES;
    const end = await runSubprocess({
      command: this.#binary,
      args: [
        ...claudeArguments(this.#options, request.maxTurns),
        ...(long ? [] : ["--", launch.prompt]),
      ],
      env: claudeEnvironment(this.#options, launch, this.owner),
      cwd: directory.cwd,
      root: directory.root,
      owner: this.owner,
      ...(long ? { stdin: launch.prompt } : {}),
      timeoutMs: request.timeoutMs,
      killGraceMs: this.#options.killGraceMs,
      maxOutputBytes: this.#options.maxOutputBytes,
      signal: launch.signal,
      register: (pgid) => this.#directories.adopt(directory, pgid),
      onLine: (line) => reader.line(line),
    });
    const said = reader.result(end.exitCode);
    const forced = forcedEnd(end.cause, request.timeoutMs, this.#options.maxOutputBytes);
    return {
      finalText: forced === null ? said.finalText : null,
      finalMessageId: said.finalMessageId,
      failure: forced ?? said.failure,
      exitCode: end.exitCode,
      stderrTail: end.stderrTail,
    };
  }
}

/** C2. */
async function probe(
  binary: string,
  directories: WorkingDirectories,
  logger: HarnessLogger,
): Promise<{ owner: ProcessOwner | null; version: string }> {
  const attempt = async (owner: ProcessOwner | null): Promise<string> => {
    const directory = await directories.create({}, owner);
    try {
      return await claudeVersion(binary, directory, owner);
    } finally {
      await directories.remove(directory);
    }
  };
  if (process.getuid?.() === 0) {
    try {
      return { owner: UNPRIVILEGED, version: await attempt(UNPRIVILEGED) };
    } catch (error) {
      logger.warn(
        { binary, err: error },
        `harnesses run as root: uid ${UNPRIVILEGED.uid} cannot run the CLI`,
      );
    }
  }
  return { owner: null, version: await attempt(null) };
}

export function claudeArguments(options: ClaudeCodeOptions, maxTurns: number): string[] {
  return [
    "-p",
    ...["--output-format", "stream-json", "--verbose"],
    "--dangerously-skip-permissions",
    ...["--tools", options.tools.join(",")],
    "--strict-mcp-config",
    "--disable-slash-commands",
    "--setting-sources=",
    "--no-session-persistence",
    ...["--max-turns", String(maxTurns)],
  ];
}

/** C1. */
export function claudeEnvironment(
  options: ClaudeCodeOptions,
  { request, directory }: Pick<HarnessLaunch, "request" | "directory">,
  owner: ProcessOwner | null,
): Record<string, string> {
  const root = owner === null && process.getuid?.() === 0;
  return {
    PATH: searchPath(),
    HOME: directory.home,
    TMPDIR: directory.temp,
    CLAUDE_CODE_TMPDIR: directory.temp,
    TERM: "dumb",
    ...(root ? { IS_SANDBOX: "1" } : {}),
    ANTHROPIC_BASE_URL: request.baseUrl,
    ANTHROPIC_API_KEY: request.apiKey,
    ANTHROPIC_MODEL: request.model,
    ANTHROPIC_DEFAULT_HAIKU_MODEL: request.model,
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
    CLAUDE_CODE_ATTRIBUTION_HEADER: "0",
    CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS: "1",
    CLAUDE_CODE_DISABLE_THINKING: "1",
    DISABLE_PROMPT_CACHING: "1",
    DISABLE_COMPACT: "1",
    CLAUDE_STREAM_IDLE_TIMEOUT_MS: String(request.timeoutMs),
    CLAUDE_CODE_MAX_CONTEXT_TOKENS: String(options.maxContextTokens),
    CLAUDE_CODE_MAX_OUTPUT_TOKENS: String(options.maxOutputTokens),
    CLAUDE_CODE_MAX_RETRIES: String(options.maxRetries),
    CLAUDE_CODE_EXTRA_BODY: '{"temperature":1}',
  };
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
