/**
 * Rebuilds rollouts from TokenEntry JSONL, without a store.
 *
 * J1. A bad line is an error that names the line. When the line names its rollout, that rollout alone fails; when it
 *     does not, any rollout may lack the call, so nothing is built.
 * J2. A record newer than this build is refused by name, never decoded.
 */
import { type FileHandle, open } from "node:fs/promises";
import type { DeliveryMode, TrajectoryBuild } from "./build.js";
import { buildTrajectory, failedBuild } from "./builder.js";
import { CaptureError } from "./errors.js";
import { fileLines, lineTooLong } from "./file-lines.js";
import type { TokenCaptureMetrics } from "./metrics.js";
import { parseTokenEntry } from "./parse-entry.js";
import { type ProjectionOptions, type RebuiltResponse, rebuildResponse } from "./projection.js";
import type { BuildError } from "./record-problems.js";
import type { TokenEntry } from "./records.js";
import { describeError } from "./snapshot.js";
import { type RowTrajectory, rowTrajectories } from "./trajectory-rows.js";

export interface RebuildOptions extends Pick<ProjectionOptions, "outputForm"> {
  /** Default `main`. */
  readonly delivery?: DeliveryMode;
}

/** One rollout's build, as `corral rebuild` prints it. */
export interface RebuiltRollout {
  rollout_id: string;
  rebuilt_response: RebuiltResponse | null;
  metrics: TokenCaptureMetrics;
  mask_sample: boolean;
  unresolved_retries: string[];
  /** In `all`: the trajectories beside the rebuilt response. */
  trajectories?: RowTrajectory[];
  /** `CODE: message`. */
  error?: string;
}

interface RolloutLines {
  readonly entries: TokenEntry[];
  lines: number;
  error: BuildError | undefined;
}

/**
 * Yields one build for each rollout, in order of first appearance. Blank lines are skipped.
 * @throws RECORD_INVALID when a line is not JSON or names no rollout.
 */
export async function* rebuildEntries(
  lines: AsyncIterable<string> | Iterable<string>,
  options: RebuildOptions = {},
): AsyncGenerator<RebuiltRollout> {
  const rollouts = await groupLines(lines);
  for (const [rolloutId, rollout] of rollouts) {
    // Freed as they are built: the file may be larger than one build.
    rollouts.delete(rolloutId);
    yield toRebuilt(buildLines(rolloutId, rollout, options), options);
  }
}

/**
 * `rebuildEntries` over a file.
 * @param maxLineBytes longest line that is read. Default: what a string holds.
 * @throws ENOENT and other file errors; RECORD_INVALID as above, and when a line is longer than the limit.
 */
export async function* rebuildEntriesFile(
  path: string,
  options: RebuildOptions = {},
  maxLineBytes?: number,
): AsyncGenerator<RebuiltRollout> {
  await using file = await open(path);
  yield* rebuildEntries(linesOf(file, maxLineBytes), options);
}

async function* linesOf(file: FileHandle, maxLineBytes?: number): AsyncGenerator<string> {
  for await (const line of fileLines(file, maxLineBytes)) {
    if (line.text === null) {
      const problem = lineTooLong(line, maxLineBytes);
      throw new CaptureError("RECORD_INVALID", `line ${line.number}: ${problem}`);
    }
    yield line.text;
  }
}

async function groupLines(
  lines: AsyncIterable<string> | Iterable<string>,
): Promise<Map<string, RolloutLines>> {
  const rollouts = new Map<string, RolloutLines>();
  let lineNumber = 0;
  for await (const line of lines) {
    lineNumber += 1;
    if (line.trim() === "") continue;
    const value = parseLine(line, lineNumber);
    const rollout = rollouts.get(value.rollout_id) ?? { entries: [], lines: 0, error: undefined };
    rollouts.set(value.rollout_id, rollout);
    rollout.lines += 1;
    try {
      rollout.entries.push(parseTokenEntry(value));
    } catch (error) {
      const { code, message } = describeError(error);
      const where = `line ${String(lineNumber)}, rollout ${value.rollout_id}`;
      rollout.error ??= { code, message: `${where}: ${message}` };
    }
  }
  return rollouts;
}

function parseLine(line: string, lineNumber: number): { rollout_id: string } {
  const where = `line ${String(lineNumber)}`;
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch (cause) {
    throw new CaptureError("RECORD_INVALID", `${where}: not JSON`, { cause });
  }
  const named = value as { rollout_id?: unknown } | null;
  if (typeof named?.rollout_id !== "string" || named.rollout_id === "") {
    throw new CaptureError("RECORD_INVALID", `${where}: rollout_id must be a non-empty string`);
  }
  return named as { rollout_id: string };
}

function buildLines(
  rolloutId: string,
  { entries, lines, error }: RolloutLines,
  { delivery = "main" }: RebuildOptions,
): TrajectoryBuild {
  return error === undefined
    ? buildTrajectory(entries, { rolloutId, delivery })
    : failedBuild(lines, { rolloutId }, error);
}

function toRebuilt(build: TrajectoryBuild, options: RebuildOptions): RebuiltRollout {
  const { error } = build;
  return {
    rollout_id: build.rolloutId,
    rebuilt_response: rebuildResponse(build, options),
    metrics: build.metrics,
    mask_sample: build.masked,
    unresolved_retries: [...build.unresolvedRetries],
    ...(options.delivery === "all" ? { trajectories: rowTrajectories(build, options) } : {}),
    ...(error === undefined ? {} : { error: `${error.code}: ${error.message}` }),
  };
}
