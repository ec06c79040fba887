/**
 * One thread of an actor, from `new Worker` to its death report. It knows the thread, not its callers: what the
 * thread asks of others goes to `onRequest`.
 *
 * L1. Every end of the thread becomes exactly one report, and `dead` always resolves: an `exit` without `error` is
 *     a death, and a thread that will not die is reported after `KILL_PATIENCE_MS`.
 * L2. Intent is noted before the thread is ended, since an exit code cannot tell why.
 * L3. What the thread logged and wrote before its end is in the report, also when it was killed: it posts each line
 *     at once, and Node hands over what was posted before it says that the thread has ended.
 */
import { getHeapStatistics } from "node:v8";
import { Worker } from "node:worker_threads";
import { decodeThrown } from "./error-wire.js";
import type { DeathCause, DeathReport } from "./errors.js";
import { watchForHang } from "./hang-watch.js";
import { readLastMethod } from "./last-method.js";
import { LineSplitter, type LogLevel, LogTail } from "./logger.js";
import type { ActorStart, CallSpan, ToActor, ToMain } from "./protocol.js";
import type { PackedValue } from "./wire-value.js";

const KILL_PATIENCE_MS = 5000;
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
  onSpans(spans: readonly CallSpan[]): void;
}

export interface ThreadLimits {
  readonly maxHeapMiB: number | undefined;
  readonly hangTimeoutMs: number | undefined;
}

/** Why the thread is being ended. `crash` is a kill that counts as a death nobody asked for. */
type Intent = "stopped" | "killed" | "crash" | "hang" | "start-failed";

/** A report of this thread alone. */
export type ThreadReport = Omit<DeathReport, "restarts">;

export class ActorThread {
  /** Resolves at the end of the thread; never rejects (L1). */
  readonly dead: Promise<ThreadReport>;
  /** True when the thread was asked to die and did not. */
  stuck = false;
  readonly #worker: Worker;
  readonly #start: ActorStart;
  readonly #events: ThreadEvents;
  readonly #limits: ThreadLimits;
  readonly #logs = new LogTail();
  readonly #output = { stdout: this.#lines("info"), stderr: this.#lines("warn") };
  readonly #startedAt = performance.now();
  #hangWatch: ReturnType<typeof watchForHang> | undefined;
  #resolveDead: (report: ThreadReport) => void = () => {};
  #resolveReady: (ready: boolean) => void = () => {};
  #ready = false;
  #intent: Intent | undefined;
  #failed = false;
  #error: unknown;
  #uncaught: { readonly rejection: boolean; readonly error: unknown } | undefined;
  #deadline: NodeJS.Timeout | undefined;

  /** @throws DataCloneError when the start message cannot be cloned. */
  constructor(start: ActorStart, limits: ThreadLimits, events: ThreadEvents) {
    this.#start = start;
    this.#events = events;
    this.#limits = limits;
    this.dead = new Promise((resolve) => {
      this.#resolveDead = resolve;
    });
    this.#worker = new Worker(new URL("./worker-entry.js", import.meta.url), {
      workerData: start,
      name: start.actor.id,
      // The flags of this process (a test runner's, a debugger's) are not the actor's.
      execArgv: [],
      // The thread posts what it writes (L3); nothing of it goes to this process's own streams.
      stdout: true,
      stderr: true,
      resourceLimits: {
        maxOldGenerationSizeMb:
          limits.maxHeapMiB ?? Math.ceil(getHeapStatistics().heap_size_limit / MIB),
      },
    });
    this.#worker.on("message", (message: ToMain) => this.#onMessage(message));
    this.#worker.on("error", (error) => {
      this.#failed = true;
      this.#error = error;
    });
    this.#worker.on("messageerror", (error) => {
      this.#error = error;
      this.kill(true);
    });
    this.#worker.on("exit", (code) => this.#finish(code));
  }

  /** True when the thread ended for a reason of its own, or one that counts as such. */
  get crashed(): boolean {
    return this.#intent === undefined || this.#intent === "crash" || this.#intent === "hang";
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
    const carriesPort = message.kind === "holder-connect" || message.kind === "actor-lane";
    this.#worker.postMessage(message, carriesPort ? [message.lane.port] : []);
  }

  /** Lets the running calls end and the stop hook run; at the deadline ends the thread. */
  stop(deadlineMs: number): void {
    if (!this.#ready) this.kill();
    else if (this.#intent === undefined) {
      this.#intent = "stopped";
      this.send({ kind: "stop" });
      this.#deadline = setTimeout(() => this.kill(), deadlineMs);
    }
  }

  /** @param crash The end counts as a death nobody asked for. */
  kill(crash = false): void {
    this.#end(crash ? "crash" : "killed");
  }

  #end(intent: Exclude<Intent, "stopped">): void {
    const ending = this.#intent !== undefined && this.#intent !== "stopped";
    // A crash that is under way becomes an end for good when somebody asks for that.
    if (!ending || intent === "killed") this.#intent = intent;
    if (ending) return;
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
        this.#onReady();
        return;
      case "pong":
        this.#hangWatch?.onPong();
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
      case "output":
        this.#output[message.stream].write(message.text);
        return;
      case "spans":
        this.#events.onSpans(message.spans);
        return;
      case "actor-connect":
      case "actor-stop":
      case "actor-kill":
      case "task-start":
        this.#events.onRequest(message);
    }
  }

  #onReady(): void {
    this.#ready = true;
    this.#resolveReady(true);
    const { hangTimeoutMs } = this.#limits;
    if (hangTimeoutMs === undefined) return;
    const { performance: loop } = this.#worker;
    let before = loop.eventLoopUtilization();
    const thread = {
      ping: () => this.send({ kind: "ping" }),
      utilization: () => {
        const now = loop.eventLoopUtilization();
        const { utilization } = loop.eventLoopUtilization(now, before);
        before = now;
        return utilization;
      },
      onHang: () => this.#end("hang"),
    };
    this.#hangWatch = watchForHang(thread, hangTimeoutMs);
  }

  #finish(exitCode: number | null): void {
    clearTimeout(this.#deadline);
    this.#hangWatch?.stop();
    this.#output.stdout.end();
    this.#output.stderr.end();
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
    if (this.#intent === "killed" || this.#intent === "crash") return "killed";
    if (this.#intent === "hang") return "hang";
    if (!this.#ready) return "start-failed";
    if (this.#intent === "stopped" && exitCode === 0) return "stopped";
    if (!this.#failed) return "exit";
    if ((this.#error as NodeJS.ErrnoException | undefined)?.code === "ERR_WORKER_OUT_OF_MEMORY")
      return "oom";
    return this.#uncaught?.rejection === true ? "unhandled-rejection" : "error";
  }

  #lines(level: LogLevel): LineSplitter {
    return new LineSplitter((line) => {
      this.#logs.push(line);
      this.#events.onLog(level, { value: {} }, line);
    });
  }
}
