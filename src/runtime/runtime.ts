/**
 * The public face of the main thread. It installs no signal handler and never ends the process.
 *
 * R9. Shutdown stops stage 0 first and the highest last, and names the threads that would not die.
 * R10. A name is held by one live actor at most, from the beginning of its `spawn`.
 */
import { type ActorDefinition, isActorDefinition, type TaskOptions } from "./define-actor.js";
import { RuntimeClosingError } from "./errors.js";
import type { ActorRef } from "./handle.js";
import type { ActorLogger } from "./logger.js";
import {
  checkDurationMs,
  type RuntimeOptions,
  resolveSpawnOptions,
  resolveTaskThreads,
  type SpawnOptions,
} from "./options.js";
import type { ActorStatus } from "./registry.js";
import { type ShutdownReport, stopByStage } from "./shutdown.js";
import { Supervisor } from "./supervisor.js";
import { packTask, settleTask } from "./task-wire.js";
import { TaskPool } from "./tasks.js";

const DEFAULT_SHUTDOWN_DEADLINE_MS = 30_000;

/** Makes a runtime. Several may live in one process; handles stay within theirs. */
export async function createRuntime(options: RuntimeOptions = {}): Promise<Runtime> {
  const threads = resolveTaskThreads(options);
  const logger = options.logger ?? (await stderrLogger());
  return new Runtime(logger, new TaskPool(threads, logger));
}

export class Runtime implements AsyncDisposable {
  readonly #logger: ActorLogger;
  readonly #tasks: TaskPool;
  readonly #supervisor: Supervisor;
  #shutdown: Promise<ShutdownReport> | undefined;

  /** @internal Use `createRuntime`. */
  constructor(logger: ActorLogger, tasks: TaskPool) {
    this.#logger = logger;
    this.#tasks = tasks;
    this.#supervisor = new Supervisor(logger, tasks);
  }

  /**
   * Starts an actor in a thread of its own and resolves when its `create` has ended. The options are checked here,
   * in the calling thread, and cloned; they may hold handles anywhere in plain objects and arrays.
   *
   * @throws ACTOR_START_FAILED when the options are refused, or the module or `create` fails; `cause` has the error.
   * @throws ACTOR_NAME_TAKEN when a live actor has the name.
   * @throws NOT_CLONEABLE when an option cannot cross a thread.
   * @throws RUNTIME_CLOSING after `shutdown` has begun.
   */
  async spawn<A extends object, O>(
    definition: ActorDefinition<A, O>,
    options: O,
    spawnOptions: SpawnOptions = {},
  ): Promise<ActorRef<A>> {
    if (!isActorDefinition(definition))
      throw new TypeError("spawn: definition is not one; give what defineActor returned");
    const resolved = resolveSpawnOptions(spawnOptions);
    if (this.#shutdown !== undefined) throw new RuntimeClosingError(`spawn of ${definition.name}`);
    return this.#supervisor.start(definition as ActorDefinition<A, O>, options, resolved);
  }

  /**
   * Runs an exported function of a module on the task pool. Tasks start in order and hold no state between them.
   *
   * @param module File URL.
   * @throws TASK_TIMEOUT, TASK_DIED, NOT_CLONEABLE, RUNTIME_CLOSING, or what the function threw.
   */
  async task<T = unknown>(
    module: string,
    exportName: string,
    args: readonly unknown[],
    options: TaskOptions = {},
  ): Promise<T> {
    if (this.#shutdown !== undefined) throw new RuntimeClosingError(`task ${exportName}`);
    const request = packTask(module, exportName, args);
    return settleTask(request, await this.#tasks.run(request, options.timeoutMs)) as T;
  }

  /** All actors, the dead included, in the order they were spawned. */
  list(): ActorStatus[] {
    return this.#supervisor.actors.list();
  }

  /**
   * Stops all actors by stage, then the task pool. Running calls end first, and actors may still call each other
   * and run tasks; new spawns and tasks of this thread are refused. Every call shares the first one's work.
   *
   * @param options.deadlineMs Default 30 000. Each later stage keeps at least a tenth of it.
   */
  shutdown(options: { readonly deadlineMs?: number } = {}): Promise<ShutdownReport> {
    const deadlineMs = options.deadlineMs ?? DEFAULT_SHUTDOWN_DEADLINE_MS;
    this.#shutdown ??= this.#shutDown(checkDurationMs("shutdown: deadlineMs", deadlineMs));
    return this.#shutdown;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.shutdown();
  }

  async #shutDown(deadlineMs: number): Promise<ShutdownReport> {
    const report = await stopByStage(this.#supervisor, this.#tasks, deadlineMs);
    if (report.stuckThreads.length > 0)
      this.#logger.error({ actors: report.stuckThreads }, "threads that would not die");
    return report;
  }
}

async function stderrLogger(): Promise<ActorLogger> {
  const { pino } = await import("pino");
  // Standard output belongs to the program.
  const logger: ActorLogger = pino({ name: "corral" }, pino.destination({ dest: 2, sync: true }));
  return logger;
}
