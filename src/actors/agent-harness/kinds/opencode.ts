/**
 * The opencode CLI as a harness, over Chat Completions: one provider, nothing of the machine's own configuration.
 *
 * O1. Nothing is fetched: no update, no list of models, no language server.
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
import type { OpencodeOptions } from "../options.js";
import type { WorkingDirectories } from "../working-directory.js";

const OPENCODE: CliPackage = {
  title: "opencode",
  name: "opencode-ai",
  version: "1.18.33",
  bin: "opencode",
};

/** @throws HARNESS_NOT_FOUND when the CLI is not installed or does not start. */
export async function startOpencode(
  options: OpencodeOptions,
  directories: WorkingDirectories,
  logger: HarnessLogger,
): Promise<CliHarness> {
  const profile: CliProfile = {
    binary: await resolveCli(OPENCODE, options.binary),
    drive: (launch, _owner, start) =>
      start({
        // A session that has a title asks the model for none.
        args: ["run", "--format", "json", "--title", "rollout"],
        // As an argument it would be wrapped in quotes, and a leading "-" read as an option.
        stdin: launch.prompt,
        env: {
          OPENCODE_DISABLE_AUTOUPDATE: "1", // O1
          OPENCODE_DISABLE_MODELS_FETCH: "1",
          OPENCODE_DISABLE_LSP_DOWNLOAD: "1",
          npm_config_offline: "true",
        },
        homeFiles: {
          ".config/opencode/opencode.json": JSON.stringify(opencodeConfig(options, launch)),
        },
      }),
    openReader: () => new OpencodeReader(),
    probe: (command, directory, owner) => checkVersion(OPENCODE, command, directory, owner, logger),
  };
  return CliHarness.start(profile, options, directories, logger);
}

export function opencodeConfig(
  { maxContextTokens, maxOutputTokens, tools }: OpencodeOptions,
  { request }: Pick<HarnessLaunch, "request">,
): object {
  const model = {
    name: request.model,
    tool_call: true,
    limit: { context: maxContextTokens, output: maxOutputTokens },
  };
  return {
    provider: {
      corral: {
        npm: "@ai-sdk/openai-compatible",
        name: "corral",
        options: { baseURL: `${request.baseUrl}/v1`, apiKey: request.apiKey },
        models: { [request.model]: model },
      },
    },
    model: `corral/${request.model}`,
    small_model: `corral/${request.model}`,
    // A tool that is denied is not offered; the last rule that fits decides.
    permission: Object.fromEntries([["*", "deny"], ...tools.map((tool) => [tool, "allow"])]),
    autoupdate: false,
    share: "disabled",
    compaction: { auto: false },
  };
}

interface OpencodeLine {
  readonly type?: unknown;
  readonly part?: {
    readonly messageID?: unknown;
    readonly text?: unknown;
    readonly reason?: unknown;
  };
  readonly error?: { readonly name?: unknown; readonly data?: { readonly message?: unknown } };
}

/** What an opencode run says about itself. Its message ids are its own: none is one that we served. */
export class OpencodeReader implements CliReader {
  #turns = 0;
  #messageId: unknown;
  #text = "";
  #stopped = false;
  #error: string | null = null;

  /** Answers that called tools. */
  get turns(): number {
    return this.#turns;
  }

  line(text: string): void {
    const line = jsonLine(text) as OpencodeLine | null;
    if (line?.type === "error") this.#error = errorText(line.error);
    const part = line?.part;
    if (part === undefined) return;
    if (part.messageID !== this.#messageId) {
      this.#messageId = part.messageID;
      this.#text = "";
    }
    if (line?.type === "text") this.#text += String(part.text);
    if (line?.type !== "step_finish") return;
    this.#stopped = part.reason !== "tool-calls";
    if (!this.#stopped) this.#turns += 1;
  }

  result(exitCode: number | null): CliResult {
    const failure = this.#failure(exitCode);
    return { finalText: failure === null ? this.#text : null, finalMessageId: null, failure };
  }

  #failure(exitCode: number | null): RolloutFailure | null {
    if (this.#error !== null)
      return { code: "MODEL_ERROR", message: this.#error.slice(0, 500), retryable: true };
    if (exitCode === 0 && this.#stopped) return null;
    const how = exitCode === null ? "a signal" : `exit code ${exitCode}`;
    const message = `opencode ended with ${how} before its turn did`;
    return { code: "HARNESS_ERROR", message, retryable: true };
  }
}

function errorText(error: OpencodeLine["error"]): string {
  return String(error?.data?.message ?? error?.name ?? "opencode reported an error");
}
