/**
 * The pi CLI as a harness, over Chat Completions: nothing of the machine's own configuration, no session file.
 */
import type { RolloutFailure } from "../../rollout.js";
import { type CliPackage, checkVersion, resolveCli } from "../cli-binary.js";
import {
  CliHarness,
  type CliProfile,
  type CliReader,
  type CliResult,
  jsonLine,
} from "../cli-harness.js";
import type { HarnessLogger } from "../context.js";
import type { HarnessLaunch } from "../harness.js";
import type { PiOptions } from "../options.js";
import type { WorkingDirectories } from "../working-directory.js";

const PI: CliPackage = {
  title: "pi",
  name: "@mariozechner/pi-coding-agent",
  version: "0.73.1",
  bin: "pi",
};
const KEY_VARIABLE = "CORRAL_KEY";

/** @throws HARNESS_NOT_FOUND when the CLI is not installed or does not start. */
export async function startPi(
  options: PiOptions,
  directories: WorkingDirectories,
  logger: HarnessLogger,
): Promise<CliHarness> {
  const profile: CliProfile = {
    binary: await resolveCli(PI, options.binary),
    drive: (launch, _owner, start) =>
      start({
        args: piArguments(options, launch),
        // As an argument a text with a leading "@" or "-" would be a file or an option.
        stdin: launch.prompt,
        env: { [KEY_VARIABLE]: launch.request.apiKey, PI_OFFLINE: "1", PI_SKIP_VERSION_CHECK: "1" },
        homeFiles: piHomeFiles(options, launch),
      }),
    openReader: () => new PiReader(),
    probe: (command, directory, owner) => checkVersion(PI, command, directory, owner, logger),
  };
  return CliHarness.start(profile, options, directories, logger);
}

export function piArguments(
  { tools }: Pick<PiOptions, "tools">,
  { request }: Pick<HarnessLaunch, "request">,
): string[] {
  return [
    "-p",
    ...["--mode", "json", "--no-session"],
    ...["--provider", "corral", "--model", request.model],
    ...["--tools", tools.join(",")],
    ...["--no-extensions", "--no-skills", "--no-prompt-templates", "--no-context-files"],
  ];
}

export function piHomeFiles(
  { maxContextTokens, maxOutputTokens, maxRetries }: PiOptions,
  { request }: Pick<HarnessLaunch, "request">,
): Record<string, string> {
  const model = {
    id: request.model,
    name: request.model,
    reasoning: false,
    input: ["text"],
    cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 },
    contextWindow: maxContextTokens,
    maxTokens: maxOutputTokens,
  };
  const corral = {
    baseUrl: `${request.baseUrl}/v1`,
    api: "openai-completions",
    apiKey: KEY_VARIABLE,
    models: [model],
  };
  const settings = {
    retry: { enabled: maxRetries > 0, maxRetries },
    compaction: { enabled: false },
  };
  return {
    ".pi/agent/models.json": JSON.stringify({ providers: { corral } }),
    ".pi/agent/settings.json": JSON.stringify(settings),
  };
}

interface PiLine {
  readonly type?: unknown;
  readonly message?: {
    readonly role?: unknown;
    readonly content?: unknown;
    readonly responseId?: unknown;
    readonly stopReason?: unknown;
    readonly errorMessage?: unknown;
  };
}

/** What a pi run says about itself. It ends with exit code 0 after some failed calls: the last message decides. */
export class PiReader implements CliReader {
  #turns = 0;
  #ended = false;
  #last: NonNullable<PiLine["message"]> | null = null;

  get turns(): number {
    return this.#turns;
  }

  line(text: string): void {
    // Most lines repeat what a message holds so far.
    if (text.startsWith('{"type":"message_update"')) return;
    const line = jsonLine(text) as PiLine | null;
    if (line?.type === "agent_end") this.#ended = true;
    if (line?.type !== "turn_end" || line.message?.role !== "assistant") return;
    this.#last = line.message;
    if (line.message.stopReason === "toolUse") this.#turns += 1;
  }

  result(exitCode: number | null): CliResult {
    const id = this.#last?.responseId;
    const finalMessageId = typeof id === "string" ? id : null;
    const failure = this.#failure(exitCode);
    return { finalText: failure === null ? this.#text() : null, finalMessageId, failure };
  }

  #text(): string {
    const parts = Array.isArray(this.#last?.content) ? (this.#last.content as unknown[]) : [];
    return parts
      .map((part) => {
        const { type, text } = part as { type?: unknown; text?: unknown };
        return type === "text" && typeof text === "string" ? text : "";
      })
      .join("");
  }

  #failure(exitCode: number | null): RolloutFailure | null {
    const reason = this.#last?.stopReason;
    if (reason === "error" || reason === "aborted") {
      const message = String(this.#last?.errorMessage ?? reason).slice(0, 500);
      return { code: "MODEL_ERROR", message, retryable: true };
    }
    if (exitCode === 0 && this.#ended && this.#last !== null) return null;
    const how = exitCode === null ? "a signal" : `exit code ${exitCode}`;
    return { code: "HARNESS_ERROR", message: `pi ended with ${how}`, retryable: true };
  }
}
