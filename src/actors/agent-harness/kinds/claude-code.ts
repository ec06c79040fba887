/**
 * The Claude Code CLI as a harness, in the profile that keeps its calls one growing conversation: no cache marks, no
 * thinking, no title call, four tools, and no compaction unless it is asked for.
 */
import { ClaudeResultReader } from "../claude-result.js";
import { type CliPackage, checkVersion, resolveCli } from "../cli-binary.js";
import { CliHarness, type CliInvocation, type CliProfile } from "../cli-harness.js";
import type { HarnessLogger } from "../context.js";
import type { HarnessLaunch, ProcessOwner } from "../harness.js";
import type { ClaudeCodeOptions } from "../options.js";
import type { WorkingDirectories } from "../working-directory.js";

const CLAUDE_CODE: CliPackage = {
  title: "Claude Code",
  name: "@anthropic-ai/claude-code",
  version: "2.1.197",
  // The one that the Agent SDK ships; npm gives it to Node 22 only.
  alsoTested: ["2.1.332"],
  bin: "claude",
};

const MIN_WINDOW_TOKENS = 100_000;
/** The most of its window that the CLI keeps for an answer. */
const MAX_RESERVED_TOKENS = 20_000;

/** A single argument may hold 128 KiB on Linux. */
const ARGUMENT_MAX_BYTES = 100 * 1024;

/** @throws HARNESS_NOT_FOUND when the CLI is not installed or does not start. */
export async function startClaudeCode(
  options: ClaudeCodeOptions,
  directories: WorkingDirectories,
  logger: HarnessLogger,
): Promise<CliHarness> {
  const binary = await resolveCli(CLAUDE_CODE, options.binary);
  const profile: CliProfile = {
    binary,
    drive: (launch, owner, start) =>
      start({
        ...promptInput(launch.prompt, claudeArguments(options, launch.request.maxTurns)),
        env: claudeEnvironment(options, launch, owner),
      }),
    openReader: () => new ClaudeResultReader(),
    probe: (command, directory, owner) =>
      checkVersion(CLAUDE_CODE, command, directory, owner, logger),
  };
  return CliHarness.start(profile, options, directories, logger);
}

/** The prompt as the last argument, or on standard input where it is too long for one. */
function promptInput(
  prompt: string,
  before: readonly string[],
): Pick<CliInvocation, "args" | "stdin"> {
  if (Buffer.byteLength(prompt) > ARGUMENT_MAX_BYTES) return { args: before, stdin: prompt };
  return { args: [...before, "--", prompt] };
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

/** With PATH, HOME, TMPDIR and TERM all that the CLI gets. */
export function claudeEnvironment(
  options: Omit<ClaudeCodeOptions, "kind">,
  { request, directory }: Pick<HarnessLaunch, "request" | "directory">,
  owner: ProcessOwner | null,
): Record<string, string> {
  const root = owner === null && process.getuid?.() === 0;
  return {
    CLAUDE_CODE_TMPDIR: directory.temp,
    ...(root ? { IS_SANDBOX: "1" } : {}),
    ANTHROPIC_BASE_URL: request.baseUrl,
    ANTHROPIC_API_KEY: request.apiKey,
    ANTHROPIC_MODEL: request.model,
    ANTHROPIC_DEFAULT_HAIKU_MODEL: request.model,
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
    CLAUDE_CODE_ATTRIBUTION_HEADER: "0",
    CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS: "1",
    CLAUDE_CODE_DISABLE_THINKING: "1",
    // The newer CLI would hide tools behind a search, and let the main thread run on beside a sub-agent.
    ENABLE_TOOL_SEARCH: "false",
    CLAUDE_CODE_DISABLE_BACKGROUND_TASKS: "1",
    DISABLE_PROMPT_CACHING: "1",
    ...compaction(options),
    CLAUDE_STREAM_IDLE_TIMEOUT_MS: String(request.timeoutMs),
    CLAUDE_CODE_MAX_CONTEXT_TOKENS: String(options.maxContextTokens),
    CLAUDE_CODE_MAX_OUTPUT_TOKENS: String(options.maxOutputTokens),
    CLAUDE_CODE_MAX_RETRIES: String(options.maxRetries),
    CLAUDE_CODE_EXTRA_BODY: '{"temperature":1}',
  };
}

/** The CLI compacts at a percentage of its window less an answer, and takes no window below 100,000 tokens. */
function compaction(options: Omit<ClaudeCodeOptions, "kind">): Record<string, string> {
  const { compactAtTokens, maxContextTokens, maxOutputTokens } = options;
  if (compactAtTokens === undefined) return { DISABLE_COMPACT: "1" };
  const window = Math.max(MIN_WINDOW_TOKENS, maxContextTokens);
  const usable = window - Math.min(maxOutputTokens, MAX_RESERVED_TOKENS);
  return {
    CLAUDE_CODE_AUTO_COMPACT_WINDOW: String(window),
    CLAUDE_AUTOCOMPACT_PCT_OVERRIDE: String(Math.min(100, (100 * compactAtTokens) / usable)),
  };
}
