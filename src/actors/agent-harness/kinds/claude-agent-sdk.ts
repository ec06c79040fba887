/**
 * The Claude Agent SDK as a harness, in the actor's own thread. It starts its Claude Code through us, in the profile of
 * the `claude_code` harness.
 *
 * S1. The CLI that the SDK runs is a process like any other harness's: its user, isolation, watchdog, deadline and
 *     limits, and of our environment nothing.
 * S2. The process decides how the run ended; an SDK that waits for more than its process holds nothing up.
 */
import { EventEmitter, once } from "node:events";
import { createRequire } from "node:module";
import path from "node:path";
import { PassThrough } from "node:stream";
import { pathToFileURL } from "node:url";
import { ClaudeResultReader } from "../claude-result.js";
import { type CliPackage, checkVersion, notInstalled, resolveCli } from "../cli-binary.js";
import { CliHarness, type CliProfile, type CliStart } from "../cli-harness.js";
import type { HarnessLogger } from "../context.js";
import type { HarnessLaunch, ProcessOwner } from "../harness.js";
import type { ClaudeAgentSdkOptions } from "../options.js";
import type { SubprocessEnd } from "../subprocess.js";
import type { WorkingDirectories } from "../working-directory.js";
import { claudeEnvironment } from "./claude-code.js";

const SDK: CliPackage = {
  title: "the Claude Agent SDK",
  name: "@anthropic-ai/claude-agent-sdk",
  version: "0.3.332",
  bin: "claude",
};
/** What `--version` of the SDK's own CLI says. */
const CLI: CliPackage = { ...SDK, title: "the Agent SDK's Claude Code", version: "2.1.332" };

/** The part of the SDK that is used. */
interface AgentSdk {
  query(call: {
    prompt: string;
    options: Readonly<Record<string, unknown>>;
  }): AsyncIterable<unknown>;
}

interface SpawnOptions {
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** @throws HARNESS_NOT_FOUND when the SDK is not installed or its CLI does not start. */
export async function startClaudeAgentSdk(
  options: ClaudeAgentSdkOptions,
  directories: WorkingDirectories,
  logger: HarnessLogger,
): Promise<CliHarness> {
  const entry = resolveSdk();
  const binary = await resolveCli(CLI, options.binary ?? bundledCli(entry));
  const sdk: AgentSdk = await import(pathToFileURL(entry).href);
  const profile: CliProfile = {
    binary,
    drive: (launch, owner, start) => driveSdk(sdk, sdkQuery(options, binary, launch, owner), start),
    openReader: () => new ClaudeResultReader(),
    probe: (command, directory, owner) => checkVersion(CLI, command, directory, owner, logger),
  };
  return CliHarness.start(profile, options, directories, logger);
}

/** The SDK's module, seen from the working directory, else from here. */
function resolveSdk(): string {
  for (const from of [path.join(process.cwd(), "_.js"), import.meta.url]) {
    try {
      return createRequire(from).resolve(SDK.name);
    } catch {
      // The other place may have it.
    }
  }
  throw notInstalled(SDK, `${SDK.title} is not installed`);
}

/** The program that npm installed beside the SDK. */
function bundledCli(entry: string): string {
  const require = createRequire(entry);
  const name = `${SDK.name}-${process.platform}-${process.arch}`;
  for (const variant of [name, `${name}-musl`]) {
    try {
      return require.resolve(`${variant}/claude`);
    } catch {
      // The other C library's.
    }
  }
  throw notInstalled(SDK, `${name}, the SDK's Claude Code, is not installed`);
}

/** The SDK's call of one rollout: the same profile as the CLI's own. */
export function sdkQuery(
  options: ClaudeAgentSdkOptions,
  binary: string,
  launch: Pick<HarnessLaunch, "request" | "prompt" | "directory">,
  owner: ProcessOwner | null,
): Parameters<AgentSdk["query"]>[0] {
  const { request, prompt, directory } = launch;
  return {
    prompt,
    options: {
      pathToClaudeCodeExecutable: binary,
      cwd: directory.cwd,
      env: claudeEnvironment(options, launch, owner),
      model: request.model,
      maxTurns: request.maxTurns,
      tools: options.tools,
      permissionMode: "bypassPermissions",
      allowDangerouslySkipPermissions: true,
      settingSources: [],
      strictMcpConfig: true,
      persistSession: false,
      extraArgs: { "disable-slash-commands": null },
    },
  };
}

async function driveSdk(
  sdk: AgentSdk,
  { prompt, options }: Parameters<AgentSdk["query"]>[0],
  start: CliStart,
): Promise<SubprocessEnd> {
  let end: Promise<SubprocessEnd> | undefined;
  const spawned = new EventEmitter();
  const spawnClaudeCodeProcess = ({ command, args, env }: SpawnOptions): SdkProcess => {
    if (command !== options["pathToClaudeCodeExecutable"])
      throw new Error(`the SDK runs ${command}: \`binary\` must be a program, not a script`);
    const child = new SdkProcess();
    end = child.run(start, args, env); // S1
    spawned.emit("spawn");
    return child;
  };
  const spawning = once(spawned, "spawn");
  const query = sdk.query({ prompt, options: { ...options, spawnClaudeCodeProcess } });
  const error = await Promise.race([drain(query), spawning]);
  if (end === undefined) throw error ?? new Error("the SDK started no process");
  return await end; // S2
}

/** Takes what the SDK says to its end; what it throws. Its process has said the same to us. */
async function drain(messages: AsyncIterable<unknown>): Promise<unknown> {
  try {
    for await (const _ of messages);
    return undefined;
  } catch (error) {
    return error;
  }
}

/** A process as the SDK sees one. */
class SdkProcess extends EventEmitter {
  readonly stdin = new PassThrough();
  readonly stdout = new PassThrough();
  exitCode: number | null = null;
  killed = false;

  async run(
    start: CliStart,
    args: readonly string[],
    env: SpawnOptions["env"],
  ): Promise<SubprocessEnd> {
    const given = Object.entries(env).filter(([, value]) => value !== undefined);
    try {
      const end = await start({
        args,
        env: Object.fromEntries(given) as Record<string, string>,
        stdin: this.stdin,
        onLine: (line) => this.stdout.write(`${line}\n`),
      });
      this.exitCode = end.exitCode;
      this.stdout.end();
      this.emit("exit", end.exitCode, end.exitCode === null ? "SIGTERM" : null);
      return end;
    } catch (error) {
      this.stdout.end();
      if (this.listenerCount("error") > 0) this.emit("error", error);
      throw error;
    }
  }

  /** The end of its input ends it; whoever wants it sooner is our own deadline. */
  kill(): boolean {
    this.killed = true;
    this.stdin.end();
    return true;
  }
}
