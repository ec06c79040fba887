/**
 * The folder that holds one run's store, journal and lock, and the note beside `--out` that finds it again.
 *
 * U1. One `--out` belongs to one run: the note is created atomically and names the run, its folder and its tasks.
 * U2. A run goes on only with the same tasks and group size; anything else is refused and nothing is touched.
 * U3. One process at a time: the operating system releases the lock when its holder dies.
 */
import { randomBytes } from "node:crypto";
import fs from "node:fs";
import path from "node:path";
import { z } from "zod";
import { acquireRunLock, isCaptureError } from "../capture/index.js";
import { ConfigError } from "./errors.js";

const RunNote = z.looseObject({
  run_id: z.string(),
  /** Absolute path of the run directory. */
  dir: z.string(),
  tasks_digest: z.string(),
  group_size: z.number(),
  config_digest: z.string(),
});
type RunNote = z.infer<typeof RunNote>;

export interface RunDirectoryRequest {
  readonly out: string;
  /** Where run directories are made. Default: `<out>.runs`, for a run without a store. */
  readonly baseDir?: string;
  /** The key that named `baseDir`, for errors. */
  readonly baseDirField: string;
  readonly tasksDigest: string;
  readonly groupSize: number;
  readonly configDigest: string;
}

export interface RunDirectory {
  readonly runId: string;
  readonly dir: string;
  readonly journalPath: string;
  readonly outPath: string;
  /** The run had begun before this process. */
  readonly resumed: boolean;
  /** The config is not the one that the run began with. */
  readonly configChanged: boolean;
  /** Idempotent. */
  release(): void;
}

/**
 * Creates the run of this `--out`, or opens it again, and locks it.
 * @throws RUN_MISMATCH when `--out` belongs to other tasks, another group size or no run.
 * @throws RUN_DIRECTORY when the folder cannot be created, written or found again.
 * @throws RUN_LOCKED when another process has it.
 */
export function openRunDirectory(request: RunDirectoryRequest): RunDirectory {
  const outPath = path.resolve(request.out);
  const notePath = `${outPath}.run`;
  makeWritable(path.dirname(outPath), "--out");
  const existing = readNote(notePath);
  if (existing === undefined) checkOutIsFree(outPath);
  else checkSameRun(existing, request, outPath);
  const note = existing ?? createNote(notePath, request, outPath);
  if (existing !== undefined && hasContent(outPath) && !fs.existsSync(note.dir))
    throw new ConfigError(
      "RUN_DIRECTORY",
      "--out",
      `the run directory ${note.dir} of ${outPath} is gone; allowed: put it back, or choose another --out`,
    );
  makeWritable(note.dir, request.baseDirField);
  const lock = lockRun(note.dir, "--out", outPath);
  return {
    runId: note.run_id,
    dir: note.dir,
    journalPath: path.join(note.dir, "journal.jsonl"),
    outPath,
    resumed: existing !== undefined,
    configChanged: note.config_digest !== request.configDigest,
    release: () => lock.release(),
  };
}

/** The folder of a training loop's run. */
export interface LoopDirectory {
  readonly dir: string;
  readonly journalPath: string;
  /** Idempotent. */
  release(): void;
}

/**
 * Makes or opens `<baseDir>/<name>` and locks it (U3).
 * @throws INVALID_VALUE for a name that is no folder name; RUN_DIRECTORY; RUN_LOCKED.
 */
export function openLoopDirectory(baseDir: string, name: string): LoopDirectory {
  if (!/^[A-Za-z0-9][A-Za-z0-9._-]*$/.test(name))
    throw new ConfigError(
      "INVALID_VALUE",
      "launch: name",
      `${JSON.stringify(name)} is not valid; allowed: letters, digits, dot, dash and underscore, a letter or digit first`,
    );
  const dir = path.join(path.resolve(baseDir), name);
  makeWritable(dir, "launch: dir");
  const lock = lockRun(dir, "launch: name", dir);
  return { dir, journalPath: path.join(dir, "journal.jsonl"), release: () => lock.release() };
}

function hasContent(file: string): boolean {
  return (fs.statSync(file, { throwIfNoEntry: false })?.size ?? 0) > 0;
}

function checkOutIsFree(outPath: string): void {
  if (!hasContent(outPath)) return;
  throw new ConfigError(
    "RUN_MISMATCH",
    "--out",
    `${outPath} exists and belongs to no run; allowed: a new file, or the --out of a run to go on with`,
  );
}

function readNote(notePath: string): RunNote | undefined {
  let text: string;
  try {
    text = fs.readFileSync(notePath, "utf8");
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
    throw directoryError("--out", notePath, "read", error);
  }
  try {
    return RunNote.parse(JSON.parse(text));
  } catch (cause) {
    throw new ConfigError("RUN_MISMATCH", "--out", `${notePath} is not the note of a run`, {
      cause,
    });
  }
}

/** U2. */
function checkSameRun(note: RunNote, request: RunDirectoryRequest, outPath: string): void {
  const other =
    note.tasks_digest !== request.tasksDigest
      ? "has other tasks"
      : note.group_size !== request.groupSize
        ? `has rollout.group_size ${note.group_size}, not ${request.groupSize}`
        : undefined;
  if (other === undefined) return;
  throw new ConfigError(
    "RUN_MISMATCH",
    "--out",
    `the run of ${outPath} ${other}; allowed: the same tasks and group size, or another --out`,
  );
}

/** U1. A whole note appears or none: written aside, then linked, which fails when another process was first. */
function createNote(notePath: string, request: RunDirectoryRequest, outPath: string): RunNote {
  const stamp = new Date().toISOString().slice(0, 19).replaceAll(":", "").replace("T", "-");
  const runId = `run-${stamp}-${randomBytes(3).toString("hex")}`;
  const baseDir = path.resolve(request.baseDir ?? `${outPath}.runs`);
  makeWritable(baseDir, request.baseDirField);
  const note: RunNote = {
    run_id: runId,
    dir: path.join(baseDir, runId),
    tasks_digest: request.tasksDigest,
    group_size: request.groupSize,
    config_digest: request.configDigest,
  };
  const draft = `${notePath}.${runId}`;
  try {
    fs.writeFileSync(draft, `${JSON.stringify(note)}\n`, { mode: 0o600, flush: true });
    fs.linkSync(draft, notePath);
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "EEXIST")
      throw lockedError("--out", outPath, error);
    throw directoryError("--out", notePath, "write", error);
  } finally {
    fs.rmSync(draft, { force: true });
  }
  return note;
}

/** Creates the folder with mode 0700 where it is missing, and proves that a file can be written into it. */
function makeWritable(dir: string, field: string): void {
  const probe = path.join(dir, `.probe-${process.pid}`);
  try {
    fs.mkdirSync(dir, { recursive: true, mode: 0o700 });
    fs.writeFileSync(probe, "");
    fs.rmSync(probe);
  } catch (error) {
    throw directoryError(field, dir, "write", error);
  }
}

function directoryError(field: string, file: string, verb: string, cause: unknown): ConfigError {
  const reason = cause instanceof Error && "code" in cause ? String(cause.code) : String(cause);
  return new ConfigError(
    "RUN_DIRECTORY",
    field,
    `cannot ${verb} ${file} (${reason}); allowed: a writable folder of this node`,
    { cause },
  );
}

/** U3. */
function lockRun(dir: string, field: string, shown: string): { release(): void } {
  try {
    return acquireRunLock(dir);
  } catch (error) {
    throw isCaptureError(error, "RUN_LOCKED") ? lockedError(field, shown, error) : error;
  }
}

function lockedError(field: string, shown: string, cause: unknown): ConfigError {
  return new ConfigError(
    "RUN_LOCKED",
    field,
    `another process runs with ${shown}; allowed: wait for it, or choose another ${field}`,
    { cause },
  );
}
