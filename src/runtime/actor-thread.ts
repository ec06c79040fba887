/**
 * One actor's thread, from `new Worker` to its death report. It knows the thread, not its callers: what the thread
 * asks of others goes to `onRequest`.
 *
 * L1. Every end of the thread becomes exactly one report, and `dead` always resolves: an `exit` without `error` is
 *     a death, and a thread that will not die is reported after `KILL_PATIENCE_MS`.
 * L2. Intent is noted before the thread is ended, since an exit code cannot tell why.
 * L3. What the thread logged and wrote before its end is in the report; a killed one may lose what it wrote last.
 */
import { getHeapStatistics } from "node:v8";
import { Worker } from "node:worker_threads";
import { decodeThrown } from "./error-wire.js";
import type { DeathCause, DeathReport } from "./errors.js";
import { readLastMethod } from "./last-method.js";
import { LineSplitter, type LogLevel, LogTail } from "./logger.js";
import type { ActorStart, ToActor, ToMain } from "./protocol.js";
import type { PackedValue } from "./wire-value.js";

const KILL_PATIENCE_MS = 5000;
const STDIO_PATIENCE_MS = 100;
const MIB = 2 ** 20;

/** A message of the thread that concerns others. */
export type ActorRequest = Extract<
  ToMain,
  { kind: "actor-connect" | "actor-stop" | "actor-kill" | "task-start" }
>;

/** Contract: must not throw. */
export interface ThreadEvents {
  onRequest(request: ActorRequest): void;
  onLog(level: LogLevel, fields: PackedValue, message: string): void;
}

export class ActorThread {
  /** Resolves at the end of the thread; never rejects (L1). */
  readonly dead: Promise<DeathReport>;
  /** True when the thread was asked to die and did not. */
  stuck = false;
  readonly #worker: Worker;
  readonly #start: ActorStart;
  readonly #events: ThreadEvents;
  readonly #logs = new LogTail();
  readonly #startedAt = performance.now();
  readonly #stdioEnded: Promise<unknown>;
  #resolveDead: (report: DeathReport) => void = () => {};
  #resolveReady: (ready: boolean) => void = () => {};
  #ready = false;
  #intent: "stopped" | "killed" | "start-failed" | undefined;
  #failed = false;
  #error: unknown;
  #uncaught: { readonly rejection: boolean; readonly error: unknown } | undefined;
  #deadline: NodeJS.Timeout | undefined;

  /** @throws DataCloneError when the start message cannot be cloned. */
  constructor(start: ActorStart, maxHeapMiB: number | undefined, events: ThreadEvents) {
    this.#start = start;
    this.#events = events;
    this.dead = new Promise((resolve) => {
      this.#resolveDead = resolve;
    });
    this.#worker = new Worker(new URL("./worker-entry.js", import.meta.url), {
      workerData: start,
      name: start.actor.id,
      // The flags of this process (a test runner's, a debugger's) are not the actor's.
      execArgv: [],
      stdout: true,
      stderr: true,
      resourceLimits: {
        maxOldGenerationSizeMb: maxHeapMiB ?? Math.ceil(getHeapStatistics().heap_size_limit / MIB),
      },
    });
    this.#stdioEnded = Promise.all([
      this.#readLines(this.#worker.stdout, "info"),
      this.#readLines(this.#worker.stderr, "warn"),
    ]);
    this.#worker.on("message", (message: ToMain) => this.#onMessage(message));
    this.#worker.on("error", (error) => {
      this.#failed = true;
      this.#error = error;
    });
    this.#worker.on("messageerror", (error) => {
      this.#error = error;
      void this.kill();
    });
    this.#worker.on("exit", (code) => void this.#onExit(code));
  }

  /** Resolves true when the actor is ready, false when the thread ended before; at `timeoutMs` it is ended. */
  async whenReady(timeoutMs: number): Promise<boolean> {
    const timer = setTimeout(() => {
      this.#error = new Error(`create did not end within startTimeoutMs ${timeoutMs}`);
      this.#end("start-failed");
    }, timeoutMs);
    const ready = await new Promise<boolean>((resolve) => {
      this.#resolveReady = resolve;
    });
    clearTimeout(timer);
    return ready;
  }

  send(message: ToActor): void {
    if (message.kind === "holder-connect") this.#worker.postMessage(message, [message.port]);
    else this.#worker.postMessage(message);
  }

  /** Lets the running calls end and the stop hook run; at the deadline ends the thread. */
  stop(deadlineMs: number): Promise<DeathReport> {
    if (!this.#ready) return this.kill();
    if (this.#intent === undefined) {
      this.#intent = "stopped";
      this.send({ kind: "stop" });
      this.#deadline = setTimeout(() => void this.kill(), deadlineMs);
    }
    return this.dead;
  }

  kill(): Promise<DeathReport> {
    this.#end("killed");
    return this.dead;
  }

  #end(intent: "killed" | "start-failed"): void {
    if (this.#intent === "killed" || this.#intent === "start-failed") return;
    this.#intent = intent;
    clearTimeout(this.#deadline);
    this.#deadline = setTimeout(() => {
      this.stuck = true;
      // A thread inside a native call must not keep the process.
      this.#worker.unref();
      this.#finish(null);
    }, KILL_PATIENCE_MS);
    void this.#worker.terminate();
  }

  #onMessage(message: ToMain): void {
    switch (message.kind) {
      case "ready":
        this.#ready = true;
        this.#resolveReady(true);
        return;
      case "start-error":
        this.#intent ??= "start-failed";
        this.#error = decodeThrown(message.error);
        return;
      case "stop-error":
        this.#error = decodeThrown(message.error);
        return;
      case "uncaught":
        this.#uncaught = { ...message, error: decodeThrown(message.error) };
        return;
      case "log":
        this.#logs.push(`${message.level} ${message.message}`);
        this.#events.onLog(message.level, message.fields, message.message);
        return;
      case "actor-connect":
      case "actor-stop":
      case "actor-kill":
      case "task-start":
        this.#events.onRequest(message);
    }
  }

  async #onExit(code: number): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    const patience = new Promise((resolve) => {
      timer = setTimeout(resolve, STDIO_PATIENCE_MS);
    });
    await Promise.race([this.#stdioEnded, patience]);
    clearTimeout(timer);
    this.#finish(code);
  }

  #finish(exitCode: number | null): void {
    clearTimeout(this.#deadline);
    const cause = this.#deathCause(exitCode);
    const uncaught = cause === "error" || cause === "unhandled-rejection" || !this.#ready;
    const error = uncaught ? (this.#uncaught?.error ?? this.#error) : this.#error;
    const lastMethod = readLastMethod(this.#start.lastMethod);
    this.#resolveDead({
      cause,
      exitCode,
      ...(error === undefined ? {} : { error }),
      ...(lastMethod === undefined ? {} : { lastMethod }),
      lastLogs: this.#logs.lines(),
      uptimeMs: Math.round(performance.now() - this.#startedAt),
    });
    this.#resolveReady(false);
  }

  #deathCause(exitCode: number | null): DeathCause {
    if (this.#intent === "killed") return "killed";
    if (!this.#ready) return "start-failed";
    if (this.#intent === "stopped" && exitCode === 0) return "stopped";
    if (!this.#failed) return "exit";
    if ((this.#error as NodeJS.ErrnoException | undefined)?.code === "ERR_WORKER_OUT_OF_MEMORY")
      return "oom";
    return this.#uncaught?.rejection === true ? "unhandled-rejection" : "error";
  }

  #readLines(stream: NodeJS.ReadableStream, level: LogLevel): Promise<void> {
    const lines = new LineSplitter((line) => {
      this.#logs.push(line);
      this.#events.onLog(level, { value: {} }, line);
    });
    stream.setEncoding("utf8");
    stream.on("data", (text: string) => lines.write(text));
    return new Promise((resolve) => {
      stream.on("end", () => {
        lines.end();
        resolve();
      });
    });
  }
}
