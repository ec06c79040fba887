/**
 * Any command line as a harness. Its standard output is the final answer; another exit code than 0 is a failure.
 *
 * M1. A placeholder is replaced once: text that came in with one is never read as another.
 */
import { checkExecutable, findExecutable } from "../cli-binary.js";
import { CliHarness, type CliProfile, type CliReader, type CliResult } from "../cli-harness.js";
import type { HarnessLogger } from "../context.js";
import { AgentHarnessError } from "../errors.js";
import type { HarnessLaunch } from "../harness.js";
import type { CommandOptions } from "../options.js";
import type { WorkingDirectories } from "../working-directory.js";

/** @throws HARNESS_NOT_FOUND when there is no such program. */
export async function startCommand(
  options: CommandOptions,
  directories: WorkingDirectories,
  logger: HarnessLogger,
): Promise<CliHarness> {
  const [program, ...args] = options.command;
  const binary = await findExecutable(program);
  if (binary === null)
    throw new AgentHarnessError(
      "HARNESS_NOT_FOUND",
      `command ${JSON.stringify(program)} is no executable file and not on PATH`,
    );
  const profile: CliProfile = {
    binary,
    drive: (launch, _owner, start) =>
      start({
        args: args.map((text) => filled(text, launch)),
        env: Object.fromEntries(
          Object.entries(options.env).map(([name, text]) => [name, filled(text, launch)]),
        ),
      }),
    openReader: () => new CommandReader(),
    probe: checkExecutable,
  };
  return CliHarness.start(profile, options, directories, logger);
}

/** M1. */
export function filled(
  text: string,
  { request, prompt, directory }: Pick<HarnessLaunch, "request" | "prompt" | "directory">,
): string {
  const values = new Map([
    ["base_url", request.baseUrl],
    ["api_key", request.apiKey],
    ["model", request.model],
    ["prompt", prompt],
    ["workdir", directory.cwd],
  ]);
  return text.replace(/\{([a-z_]+)\}/g, (whole, name: string) => values.get(name) ?? whole);
}

class CommandReader implements CliReader {
  /** A command does not tell. */
  readonly turns = 0;
  readonly #lines: string[] = [];

  line(text: string): void {
    this.#lines.push(text);
  }

  result(exitCode: number | null): CliResult {
    if (exitCode === 0)
      return { finalText: this.#lines.join("\n").trim(), finalMessageId: null, failure: null };
    const how = exitCode === null ? "a signal" : `exit code ${exitCode}`;
    const failure = {
      code: "HARNESS_ERROR",
      message: `the command ended with ${how}`,
      retryable: true,
    } as const;
    return { finalText: null, finalMessageId: null, failure };
  }
}
