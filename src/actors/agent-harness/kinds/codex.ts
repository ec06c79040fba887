/**
 * The Codex CLI as a harness: one provider, the rollout's endpoint, and only the tools that work on files.
 *
 * X1. Nothing is fetched: plugins and apps are off, the model's description is given.
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
import type { CodexOptions } from "../options.js";
import type { WorkingDirectories } from "../working-directory.js";

const CODEX: CliPackage = {
  title: "Codex",
  name: "@openai/codex",
  version: "0.171.0",
  bin: "codex",
};
const KEY_VARIABLE = "CORRAL_KEY";
/** The prompt comes on standard input, where no text of it is read as an option. */
const CODEX_ARGUMENTS = [
  ...["exec", "--json", "--skip-git-repo-check"],
  "--dangerously-bypass-approvals-and-sandbox",
];

/** @throws HARNESS_NOT_FOUND when the CLI is not installed or does not start. */
export async function startCodex(
  options: CodexOptions,
  directories: WorkingDirectories,
  logger: HarnessLogger,
): Promise<CliHarness> {
  const profile: CliProfile = {
    binary: await resolveCli(CODEX, options.binary),
    drive: (launch, _owner, start) =>
      start({
        args: CODEX_ARGUMENTS,
        stdin: launch.prompt,
        env: {
          CODEX_HOME: `${launch.directory.home}/.codex`,
          [KEY_VARIABLE]: launch.request.apiKey,
        },
        homeFiles: { ".codex/config.toml": codexConfig(options, launch) },
      }),
    openReader: () => new CodexReader(),
    probe: (command, directory, owner) => checkVersion(CODEX, command, directory, owner, logger),
  };
  return CliHarness.start(profile, options, directories, logger);
}

/** X1. */
export function codexConfig(
  { maxRetries, maxContextTokens }: Pick<CodexOptions, "maxRetries" | "maxContextTokens">,
  { request }: Pick<HarnessLaunch, "request">,
): string {
  return [
    `model = ${toml(request.model)}`,
    'model_provider = "corral"',
    `model_context_window = ${maxContextTokens}`,
    'web_search = "disabled"',
    "[features]",
    ...DISABLED_FEATURES.map((feature) => `${feature} = false`),
    "[tools]",
    "view_image = false",
    "[model_providers.corral]",
    'name = "corral"',
    `base_url = ${toml(`${request.baseUrl}/v1`)}`,
    `env_key = ${toml(KEY_VARIABLE)}`,
    'wire_api = "responses"',
    `request_max_retries = ${maxRetries}`,
    `stream_max_retries = ${maxRetries}`,
    // A slow engine is bounded by the rollout's deadline, not by silence.
    `stream_idle_timeout_ms = ${request.timeoutMs}`,
    "",
  ].join("\n");
}

const DISABLED_FEATURES = ["plugins", "apps", "goals", "multi_agent"];

/** A TOML basic string; JSON's escapes are a part of TOML's. */
function toml(text: string): string {
  return JSON.stringify(text);
}

interface CodexLine {
  readonly type?: unknown;
  readonly item?: { readonly type?: unknown; readonly text?: unknown };
  readonly error?: { readonly message?: unknown };
  readonly message?: unknown;
}

/** What a Codex run says about itself. Codex shows no id of a served message. */
export class CodexReader implements CliReader {
  #turns = 0;
  #text: string | null = null;
  #completed = false;
  #error: string | null = null;

  /** Tool calls that ended. */
  get turns(): number {
    return this.#turns;
  }

  line(text: string): void {
    const line = jsonLine(text) as CodexLine | null;
    if (line === null) return;
    if (line.type === "item.completed") this.#item(line.item ?? {});
    else if (line.type === "turn.completed") this.#completed = true;
    else if (line.type === "turn.failed") this.#error = String(line.error?.message);
    else if (line.type === "error") this.#error = String(line.message);
  }

  result(exitCode: number | null): CliResult {
    if (exitCode === 0 && this.#completed)
      return { finalText: this.#text, finalMessageId: null, failure: null };
    return { finalText: null, finalMessageId: null, failure: this.#failure(exitCode) };
  }

  #item({ type, text }: NonNullable<CodexLine["item"]>): void {
    if (type === "agent_message") this.#text = typeof text === "string" ? text : null;
    else if (type !== "reasoning" && type !== "error") this.#turns += 1;
  }

  #failure(exitCode: number | null): RolloutFailure {
    if (this.#error !== null)
      return { code: "MODEL_ERROR", message: this.#error.slice(0, 500), retryable: true };
    const how = exitCode === null ? "a signal" : `exit code ${exitCode}`;
    return {
      code: "HARNESS_ERROR",
      message: `codex ended with ${how} before its turn did`,
      retryable: true,
    };
  }
}
