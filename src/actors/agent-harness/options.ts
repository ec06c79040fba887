import os from "node:os";
import { z } from "zod";
import { AgentHarnessError } from "./errors.js";

const FileUrl = z.string().refine((value) => value.startsWith("file:"), "must be a file: URL");

const Common = {
  /** Directory that holds the rollouts' directories. @default the system's temporary directory */
  tempRoot: z.string().min(1).optional(),
  /** Time a verifier has, ms. @default 60_000 */
  verifierTimeoutMs: z.number().int().min(1).default(60_000),
};

/** What every command line has. */
const Cli = {
  ...Common,
  /** Bytes of standard output after which a harness is ended. @default 32 MiB */
  maxOutputBytes: z
    .number()
    .int()
    .min(1)
    .default(32 * 1024 * 1024),
  /** Time between SIGTERM and SIGKILL, ms. @default 2000 */
  killGraceMs: z.number().int().min(0).default(2000),
  /** `bwrap` hides the file system and our processes from the harness. @default "none" */
  isolation: z.enum(["none", "bwrap"]).default("none"),
  /** Absolute paths that an isolated harness may read beside the system and its own program. */
  readable: z.array(z.string().startsWith("/")).default([]),
};

/** What every command line of an npm package has. */
const PackagedCli = {
  ...Cli,
  /** The program. @default the installed package, else its command on PATH */
  binary: z.string().min(1).optional(),
  /** Most tokens of one answer. @default 1000 */
  maxOutputTokens: z.number().int().min(1).default(1000),
  /** Context size the CLI assumes for the policy, tokens. @default 100_000 */
  maxContextTokens: z.number().int().min(1).default(100_000),
  /** Repeats of a failed model call. @default 2 */
  maxRetries: z.number().int().min(0).default(2),
};

const Claude = {
  ...PackagedCli,
  /** Tools that the CLI offers. @default Bash, Read, Write, Edit */
  tools: z.array(z.string().min(1)).min(1).default(["Bash", "Read", "Write", "Edit"]),
  /** Context size, in tokens, at which the CLI compacts the conversation. @default never: a full context fails the run */
  compactAtTokens: z.number().int().min(1).optional(),
};

const ClaudeCodeOptions = z.strictObject({ kind: z.literal("claude_code"), ...Claude });

const ClaudeAgentSdkOptions = z.strictObject({ kind: z.literal("claude_agent_sdk"), ...Claude });

const CodexOptions = z.strictObject({ kind: z.literal("codex"), ...PackagedCli });

const { maxRetries: _, ...NoRetries } = PackagedCli;
/** opencode repeats a failed call as it likes. */
const OpencodeOptions = z.strictObject({
  kind: z.literal("opencode"),
  ...NoRetries,
  /** Tools that the CLI offers. @default bash, read, edit, write */
  tools: z.array(z.string().min(1)).min(1).default(["bash", "read", "edit", "write"]),
});

const PiOptions = z.strictObject({
  kind: z.literal("pi"),
  ...PackagedCli,
  /** Tools that the CLI offers. @default read, bash, edit, write */
  tools: z.array(z.string().min(1)).min(1).default(["read", "bash", "edit", "write"]),
});

const CommandOptions = z.strictObject({
  kind: z.literal("command"),
  ...Cli,
  /**
   * Program and arguments. `{base_url}`, `{api_key}`, `{model}`, `{prompt}` and `{workdir}` are replaced; `{base_url}`
   * has neither a trailing slash nor `/v1`.
   */
  command: z.tuple([z.string().min(1)], z.string()),
  /** Environment beside PATH, HOME, TMPDIR and TERM; the same placeholders. */
  env: z.record(z.string().min(1), z.string()).default({}),
});

const FunctionOptions = z.strictObject({
  kind: z.literal("function"),
  ...Common,
  /** File URL of the module. */
  module: FileUrl,
  exportName: z.string().min(1),
});

const Options = z.discriminatedUnion("kind", [
  ClaudeCodeOptions,
  ClaudeAgentSdkOptions,
  CodexOptions,
  OpencodeOptions,
  PiOptions,
  CommandOptions,
  FunctionOptions,
]);

export type ClaudeCodeOptions = z.infer<typeof ClaudeCodeOptions>;
export type ClaudeAgentSdkOptions = z.infer<typeof ClaudeAgentSdkOptions>;
export type CodexOptions = z.infer<typeof CodexOptions>;
export type OpencodeOptions = z.infer<typeof OpencodeOptions>;
export type PiOptions = z.infer<typeof PiOptions>;
export type CommandOptions = z.infer<typeof CommandOptions>;
export type FunctionOptions = z.infer<typeof FunctionOptions>;
/** Options as they are given; every default may be left out. */
export type AgentHarnessOptions = z.input<typeof Options>;
export type ResolvedAgentHarnessOptions = z.infer<typeof Options>;

/** @throws OPTIONS_INVALID naming the option. */
export function parseAgentHarnessOptions(value: unknown): ResolvedAgentHarnessOptions {
  const parsed = Options.safeParse(value);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const option = issue?.path.join(".") || "options";
  throw new AgentHarnessError("OPTIONS_INVALID", `agent harness: ${option}: ${issue?.message}`);
}

export function tempRootOf(options: ResolvedAgentHarnessOptions): string {
  return options.tempRoot ?? os.tmpdir();
}
