/**
 * Stateless tasks on Piscina. Piscina's own queue is not FIFO, so a mailbox stands before it and never gives it more
 * tasks than it has threads. A task thread is used again: task modules hold no mutable state.
 *
 * T1. Tasks start in the order they were given.
 * T2. `timeoutMs` counts from the start of the task; at its end the thread is ended, a spinning one too, and only
 *     that task fails.
 * T3. A task whose thread dies rejects with `TASK_DIED`; the next ones run.
 */
import type { Piscina } from "piscina";
import { RuntimeClosingError, TaskError } from "./errors.js";
import type { ActorLogger } from "./logger.js";
import { Mailbox } from "./mailbox.js";
import { checkDurationMs } from "./options.js";
import type { Outcome, TaskRequest } from "./protocol.js";
import { taskText } from "./task-wire.js";

const IDLE_TIMEOUT_MS = 10_000;

export class TaskPool {
  readonly #gate: Mailbox;
  readonly #logger: ActorLogger;
  #pool: Promise<Piscina<TaskRequest, Outcome>> | undefined;

  constructor(threads: number, logger: ActorLogger) {
    this.#gate = new Mailbox(threads);
    this.#logger = logger;
  }

  /** @throws TASK_TIMEOUT, TASK_DIED. An error of the task itself is an outcome. */
  async run(
    task: TaskRequest,
    timeoutMs: number | undefined,
    cancelled?: AbortSignal,
  ): Promise<Outcome> {
    if (timeoutMs !== undefined) checkDurationMs("task: timeoutMs", timeoutMs);
    return this.#gate.run(() => this.#runNow(task, timeoutMs, cancelled));
  }

  /** Waits for the tasks that were given until the deadline, then ends the threads. Refuse new tasks first. */
  async close(deadlineMs: number): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    const deadline = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, deadlineMs);
    });
    await Promise.race([this.#gate.whenIdle(), deadline]);
    clearTimeout(timer);
    this.#gate.close(() => new RuntimeClosingError("a task in the queue"));
    const pool = await this.#pool;
    await pool?.destroy();
  }

  async #runNow(
    task: TaskRequest,
    timeoutMs: number | undefined,
    cancelled: AbortSignal | undefined,
  ): Promise<Outcome> {
    cancelled?.throwIfAborted();
    this.#pool ??= this.#createPool();
    const pool = await this.#pool;
    const abort = new AbortController();
    const onCancelled = (): void => abort.abort();
    cancelled?.addEventListener("abort", onCancelled);
    let timedOut = false;
    const timer =
      timeoutMs === undefined
        ? undefined
        : setTimeout(() => {
            timedOut = true;
            abort.abort();
          }, timeoutMs);
    try {
      return await pool.run(task, { signal: abort.signal });
    } catch (error) {
      const name = taskText(task);
      if (timedOut)
        throw new TaskError("TASK_TIMEOUT", name, `ran longer than timeoutMs ${timeoutMs}`);
      throw new TaskError("TASK_DIED", name, "lost its thread", asError(error));
    } finally {
      clearTimeout(timer);
      cancelled?.removeEventListener("abort", onCancelled);
    }
  }

  async #createPool(): Promise<Piscina<TaskRequest, Outcome>> {
    const { Piscina } = await import("piscina");
    const pool = new Piscina<TaskRequest, Outcome>({
      filename: new URL("./task-entry.js", import.meta.url).href,
      name: "runTask",
      minThreads: 0,
      maxThreads: this.#gate.limit,
      concurrentTasksPerWorker: 1,
      // `sync` would park an idle thread with the timers a task left behind.
      atomics: "async",
      idleTimeout: IDLE_TIMEOUT_MS,
      execArgv: [],
    });
    // A timer left by an ended task may throw: without a listener that would end the process.
    pool.on("error", (error: unknown) => {
      this.#logger.warn({ err: error }, "a task thread failed after its task had ended");
    });
    return pool;
  }
}

// Piscina rejects with a plain object when a result cannot be cloned.
function asError(error: unknown): Error {
  return error instanceof Error
    ? error
    : new Error("the result could not be sent", { cause: error });
}
