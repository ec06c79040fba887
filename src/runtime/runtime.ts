/**
 * The public face of the main thread. It installs no signal handler and never ends the process.
 *
 * R9. Shutdown stops stage 0 first and the highest last, and names the threads that would not die.
 * R10. A name is held by one live actor at most, from the beginning of its `spawn`.
 */
import { ActorGroup } from "./actor-group.js";
import { putShared, type SharedView, type TypedArray } from "./buffers.js";
import { type ActorDefinition, isActorDefinition, type TaskOptions } from "./define-actor.js";
import { RuntimeClosingError } from "./errors.js";
import { type RuntimeEvent, RuntimeEvents } from "./events.js";
import type { ActorRef } from "./handle.js";
import type { ActorLogger } from "./logger.js";
import {
  checkDurationMs,
  type GroupOptions,
  type RuntimeOptions,
  resolveGroupOptions,
  resolveRuntimeOptions,
  resolveSpawnOptions,
  type SpawnOptions,
} from "./options.js";
import type { ActorStatus } from "./registry.js";
import { type ShutdownReport, stopByStage } from "./shutdown.js";
import { Supervisor } from "./supervisor.js";
import { packTask, settleTask } from "./task-wire.js";
import { TaskPool } from "./tasks.js";
import { TraceFile } from "./trace-file.js";

const DEFAULT_SHUTDOWN_DEADLINE_MS = 30_000;

/**
 * Makes a runtime. Several may live in one process; handles stay within theirs.
 *
 * @throws TypeError or RangeError that names a bad option; an error of the file system when `traceFile` cannot be written.
 */
export async function createRuntime(options: RuntimeOptions = {}): Promise<Runtime> {
  const { taskThreads, namespace } = resolveRuntimeOptions(options);
  const logger = options.logger ?? (await stderrLogger());
  const trace =
    options.traceFile === undefined ? undefined : await TraceFile.create(options.traceFile, logger);
  const tasks = new TaskPool(taskThreads, logger);
  return new Runtime({ logger, tasks, namespace, trace });
}

interface RuntimeParts {
  readonly logger: ActorLogger;
  readonly tasks: TaskPool;
  readonly namespace: string;
  readonly trace: TraceFile | undefined;
}

export class Runtime implements AsyncDisposable {
  readonly #parts: RuntimeParts;
  readonly #events: RuntimeEvents;
  readonly #supervisor: Supervisor;
  #shutdown: Promise<ShutdownReport> | undefined;

  /** @internal Use `createRuntime`. */
  constructor(parts: RuntimeParts) {
    const { logger, tasks, trace } = parts;
    this.#parts = parts;
    this.#events = new RuntimeEvents(trace);
    const events = this.#events;
    this.#supervisor = new Supervisor({ logger, tasks, events, trace: trace !== undefined });
  }

  /**
   * Starts an actor in a thread of its own and resolves when its `create` has ended. The options are checked here,
   * in the calling thread, and cloned; they may hold handles anywhere in plain objects and arrays.
   *
   * @throws ACTOR_START_FAILED when the options are refused, or the module or `create` fails; `cause` has the error.
   * @throws ACTOR_NAME_TAKEN when a live actor has the name; with `getIfExists`, when it is another kind of actor.
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
    const resolved = resolveSpawnOptions(spawnOptions, this.#parts.namespace);
    if (this.#shutdown !== undefined) throw new RuntimeClosingError(`spawn of ${definition.name}`);
    return this.#supervisor.start(definition as ActorDefinition<A, O>, options, resolved);
  }

  /**
   * Starts `numWorkers` actors of one kind; when one does not start, the others are ended. Each is spawned as by
   * `spawn`; with a `name`, member `i` is called `name-i`.
   *
   * @param options Of each member, or a function that makes them from its index.
   * @throws as `spawn`
   */
  async spawnGroup<A extends object, O>(
    definition: ActorDefinition<A, O>,
    options: O | ((index: number) => O),
    groupOptions: GroupOptions,
  ): Promise<ActorGroup<A>> {
    const { numWorkers, route, member } = resolveGroupOptions(groupOptions);
    const optionsOf = (index: number): O =>
      typeof options === "function" ? (options as (index: number) => O)(index) : options;
    const spawns = await Promise.allSettled(
      Array.from({ length: numWorkers }, (_, index) =>
        this.spawn(definition, optionsOf(index), member(index)),
      ),
    );
    const failed = spawns.find((spawn) => spawn.status === "rejected");
    const refs = spawns.flatMap((spawn) => (spawn.status === "fulfilled" ? [spawn.value] : []));
    if (failed === undefined) return new ActorGroup(refs, route);
    await Promise.all(refs.map((ref) => ref.kill()));
    throw failed.reason;
  }

  /** The live actor of that name; undefined when there is none. The type is the caller's word. */
  get<A>(
    name: string,
    { namespace = this.#parts.namespace }: { readonly namespace?: string } = {},
  ): ActorRef<A> | undefined {
    const record = this.#supervisor.actors.named(name, namespace);
    if (record?.life === undefined || record.life.state === "PENDING_CREATION") return undefined;
    return this.#supervisor.handleOf<A>(record);
  }

  /**
   * A copy of a typed array in shared memory, of the same class. Sent to an actor, it is not copied again: all read
   * the same bytes. Nothing guards them, so write only before the first send.
   */
  put<T extends TypedArray>(view: T): SharedView<T> {
    return putShared(view);
  }

  /** Changes of state of all actors, from now until the runtime has shut down. */
  events(): AsyncIterableIterator<RuntimeEvent, undefined> {
    return this.#events.subscribe();
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
    return settleTask(request, await this.#parts.tasks.run(request, options.timeoutMs)) as T;
  }

  /** All actors, the last 1000 dead included, in the order they were spawned. */
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
    const report = await stopByStage(this.#supervisor, this.#parts.tasks, deadlineMs);
    await this.#events.close();
    if (report.stuckThreads.length > 0)
      this.#parts.logger.error({ actors: report.stuckThreads }, "threads that would not die");
    return report;
  }
}

async function stderrLogger(): Promise<ActorLogger> {
  const { pino } = await import("pino");
  // Standard output belongs to the program.
  const logger: ActorLogger = pino({ name: "corral" }, pino.destination({ dest: 2, sync: true }));
  return logger;
}
