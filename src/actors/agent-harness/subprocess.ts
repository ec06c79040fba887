/**
 * Runs one external program as a process group of its own, to a deadline.
 *
 * P1. The program starts only after the watchdog knows its group: a shell waits on an extra pipe for our word, and
 *     our death, which closes the pipe, ends it.
 * P2. Its environment is exactly the one given; nothing of ours is inherited.
 * P3. It settles only when no process of the rollout is left, whatever ended it.
 */
import { type ChildProcess, spawn } from "node:child_process";
import type { Readable, Writable } from "node:stream";
import type { ProcessOwner } from "./harness.js";
import { killRollout, signalGroup } from "./process-group.js";

/** Waits for a line on descriptor 3, closes it and becomes the program. */
const GATE = 'read -r go <&3 || exit 1; exec "$0" "$@" 3<&-';
const STDERR_TAIL_CHARACTERS = 4000;
/** How long a stream may stay open after every process that could write to it was killed. */
const STREAM_CLOSE_MS = 1000;

export interface SubprocessRequest {
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  /** Everything of the rollout runs below this directory. */
  readonly root: string;
  readonly owner: ProcessOwner | null;
  /** Undefined: `/dev/null`. */
  readonly stdin?: string | Readable;
  readonly timeoutMs: number;
  readonly killGraceMs: number;
  readonly maxOutputBytes: number;
  readonly signal: AbortSignal;
  /** Contract: resolves when the watchdog answers for the group. */
  readonly register: (pgid: number) => Promise<void>;
  /** Called with every whole line of standard output. */
  readonly onLine: (line: string) => void;
}

/** What ended the program first. */
export type EndCause = "exit" | "deadline" | "cancelled" | "output_limit";

export interface SubprocessEnd {
  readonly cause: EndCause;
  readonly exitCode: number | null;
  readonly stderrTail: string;
}

/** @throws the spawn error when the shell cannot be started. */
export async function runSubprocess(request: SubprocessRequest): Promise<SubprocessEnd> {
  const child = spawn("/bin/sh", ["-c", GATE, request.command, ...request.args], {
    cwd: request.cwd,
    env: { ...request.env }, // P2
    detached: true,
    stdio: [request.stdin === undefined ? "ignore" : "pipe", "pipe", "pipe", "pipe"],
    ...(request.owner ?? {}),
  });
  const exited = exitOf(child);
  const pgid = await startedGroup(child);
  const ending = new Ending(pgid, request.killGraceMs);
  const stderr = new Tail(STDERR_TAIL_CHARACTERS);
  const closed = readOutput(child, request, stderr, ending);
  const onAbort = (): void => ending.begin("cancelled");
  const deadline = setTimeout(() => ending.begin("deadline"), request.timeoutMs);
  request.signal.addEventListener("abort", onAbort, { once: true });
  try {
    await openGate(child, request, pgid, ending);
    const exitCode = await exited;
    return { cause: ending.cause ?? "exit", exitCode, stderrTail: stderr.text };
  } finally {
    clearTimeout(deadline);
    ending.settle();
    request.signal.removeEventListener("abort", onAbort);
    await killRollout(pgid, request.root); // P3
    await exited;
    await closedWithin(closed, child);
  }
}

/** The way to the end: SIGTERM to the group, then SIGKILL. The first cause stays. */
class Ending {
  cause: EndCause | null = null;
  readonly #pgid: number;
  readonly #graceMs: number;
  #timer: NodeJS.Timeout | undefined;

  constructor(pgid: number, graceMs: number) {
    this.#pgid = pgid;
    this.#graceMs = graceMs;
  }

  begin(cause: EndCause): void {
    if (this.cause !== null) return;
    this.cause = cause;
    signalGroup(this.#pgid, "SIGTERM");
    this.#timer = setTimeout(() => signalGroup(this.#pgid, "SIGKILL"), this.#graceMs);
  }

  settle(): void {
    clearTimeout(this.#timer);
  }
}

/** The end of a text. */
class Tail {
  text = "";
  readonly #characters: number;

  constructor(characters: number) {
    this.#characters = characters;
  }

  push(chunk: string): void {
    this.text = (this.text + chunk).slice(-this.#characters);
  }
}

function exitOf(child: ChildProcess): Promise<number | null> {
  return new Promise((resolve) => {
    child.once("exit", (code) => resolve(code));
    child.once("error", () => resolve(null));
  });
}

function startedGroup(child: ChildProcess): Promise<number> {
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("spawn", () => resolve(child.pid ?? 0));
  });
}

async function openGate(
  child: ChildProcess,
  request: SubprocessRequest,
  pgid: number,
  ending: Ending,
): Promise<void> {
  const gate = child.stdio[3] as Writable;
  // The shell may be gone before it reads.
  gate.on("error", () => {});
  await request.register(pgid); // P1
  if (request.signal.aborted) ending.begin("cancelled");
  gate.end(ending.cause === null ? "go\n" : "");
  child.stdin?.on("error", () => {});
  if (typeof request.stdin === "object") request.stdin.pipe(child.stdin as Writable);
  else child.stdin?.end(request.stdin);
}

/** Resolves when both output streams are closed. */
function readOutput(
  child: ChildProcess,
  request: SubprocessRequest,
  stderr: Tail,
  ending: Ending,
): Promise<unknown> {
  const stdout = child.stdout as Readable;
  const errors = child.stderr as Readable;
  const closed = [stdout, errors].map(
    (stream) => new Promise((done) => stream.once("close", done)),
  );
  let parts: string[] = [];
  let bytes = 0;
  stdout.setEncoding("utf8").on("data", (chunk: string) => {
    bytes += Buffer.byteLength(chunk);
    if (bytes > request.maxOutputBytes) {
      ending.begin("output_limit");
      parts = [];
      return;
    }
    const [first = "", ...rest] = chunk.split("\n");
    parts.push(first);
    for (const next of rest) {
      request.onLine(parts.join(""));
      parts = [next];
    }
  });
  stdout.once("end", () => {
    if (parts.join("") !== "") request.onLine(parts.join(""));
  });
  errors.setEncoding("utf8").on("data", (chunk: string) => stderr.push(chunk));
  return Promise.all(closed);
}

/** A process that hid from us may hold a stream open; it does not hold us. */
async function closedWithin(closed: Promise<unknown>, child: ChildProcess): Promise<void> {
  const giveUp = setTimeout(() => {
    child.stdout?.destroy();
    child.stderr?.destroy();
  }, STREAM_CLOSE_MS);
  await closed;
  clearTimeout(giveUp);
}
