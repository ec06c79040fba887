/**
 * All actors of one runtime, seen from the main thread: starts their threads, connects whoever holds a handle, and
 * tells everybody of each death.
 *
 * S1. Every thread is told of every death, so that no holder waits for an answer that cannot come (R1).
 * S2. Whoever connects to a dead actor is told so at once.
 * S3. The tasks a dead actor waited for are ended: nobody would take their result.
 */
import { type ActorRequest, ActorThread } from "./actor-thread.js";
import type { ActorDefinition } from "./define-actor.js";
import { ActorDirectory, encodeReport } from "./directory.js";
import { encodeThrown } from "./error-wire.js";
import { ActorStartError, type DeathReport, labelText, SerializationError } from "./errors.js";
import type { ActorHandle } from "./handle.js";
import { createLastMethod } from "./last-method.js";
import type { ActorLogger, LogLevel } from "./logger.js";
import type { ResolvedSpawnOptions } from "./options.js";
import type { ActorStart, Outcome, ToActor } from "./protocol.js";
import { type ActorRecord, ActorRegistry } from "./registry.js";
import type { TaskPool } from "./tasks.js";
import { type PackedValue, UncloneableError } from "./wire-value.js";

export class Supervisor {
  readonly actors = new ActorRegistry();
  readonly #directory: ActorDirectory;
  readonly #logger: ActorLogger;
  readonly #tasks: TaskPool;
  #lastNumber = 0;

  constructor(logger: ActorLogger, tasks: TaskPool) {
    this.#logger = logger;
    this.#tasks = tasks;
    this.#directory = new ActorDirectory({
      connectActor: (actorId, port) => {
        const record = this.actors.get(actorId);
        if (record?.thread !== undefined) record.thread.send({ kind: "holder-connect", port });
        else this.#directory.announceDeath(actorId, reportOf(record));
      },
      stopActor: (actorId, deadlineMs) => void this.actors.get(actorId)?.thread?.stop(deadlineMs),
      killActor: (actorId) => void this.actors.get(actorId)?.thread?.kill(),
    });
  }

  async start<A extends object, O>(
    definition: ActorDefinition<A, O>,
    options: O,
    resolved: ResolvedSpawnOptions,
  ): Promise<ActorHandle<A>> {
    const record: ActorRecord = {
      actor: {
        id: `${definition.name}-${++this.#lastNumber}`,
        name: resolved.name,
        maxConcurrency: resolved.maxConcurrency,
      },
      definition: definition.name,
      stopStage: resolved.stopStage,
      death: new AbortController(),
      state: "PENDING_CREATION",
    };
    this.actors.add(record);
    let thread: ActorThread;
    try {
      thread = this.#startThread(record, definition, options, resolved.maxHeapMiB);
    } catch (error) {
      this.actors.remove(record);
      throw error;
    }
    if (!(await thread.whenReady(resolved.startTimeoutMs)))
      throw startError(record, await thread.dead);
    record.state = record.report === undefined ? "ALIVE" : "DEAD";
    return this.#directory.handleOf<A>(record.actor);
  }

  handleOf(record: ActorRecord): ActorHandle<object> {
    return this.#directory.handleOf(record.actor);
  }

  #startThread<A extends object, O>(
    record: ActorRecord,
    definition: ActorDefinition<A, O>,
    options: O,
    maxHeapMiB: number | undefined,
  ): ActorThread {
    const start: ActorStart = {
      corral: "actor",
      actor: record.actor,
      module: definition.module,
      definition: definition.name,
      options: this.#packOptions(record, definition, options),
      lastMethod: createLastMethod(),
    };
    const thread = this.#newThread(record, start, maxHeapMiB);
    record.thread = thread;
    void thread.dead.then((report) => this.#onDeath(record, report));
    return thread;
  }

  #newThread(record: ActorRecord, start: ActorStart, maxHeapMiB: number | undefined): ActorThread {
    try {
      return new ActorThread(start, maxHeapMiB, {
        onRequest: (request) => this.#onRequest(record, request),
        onLog: (level, fields, message) => this.#onLog(record, level, fields, message),
      });
    } catch (error) {
      throw startError(record, undefined, error);
    }
  }

  #packOptions<A extends object, O>(
    record: ActorRecord,
    definition: ActorDefinition<A, O>,
    options: O,
  ): PackedValue {
    let parsed: O;
    try {
      parsed = definition.options === undefined ? options : definition.options.parse(options);
    } catch (error) {
      throw startError(record, undefined, error);
    }
    try {
      // Finds now, under the actor's name, what `new Worker` would refuse without one.
      return structuredClone(this.#directory.pack(parsed));
    } catch (error) {
      if (!(error instanceof UncloneableError) && !(error instanceof DOMException)) throw error;
      throw new SerializationError(record.actor, "create", `option ${error.message}`, {
        cause: error,
      });
    }
  }

  #onRequest(from: ActorRecord, request: ActorRequest): void {
    switch (request.kind) {
      case "actor-connect": {
        const { actorId, port } = request;
        const record = this.actors.get(actorId);
        if (record?.thread !== undefined) record.thread.send({ kind: "holder-connect", port });
        else from.thread?.send(endMessage(actorId, reportOf(record)));
        return;
      }
      case "actor-stop":
        void this.actors.get(request.actorId)?.thread?.stop(request.deadlineMs);
        return;
      case "actor-kill":
        void this.actors.get(request.actorId)?.thread?.kill();
        return;
      case "task-start": {
        const { taskId, task, timeoutMs } = request;
        void this.#tasks
          .run(task, timeoutMs, from.death.signal)
          .catch((error: unknown): Outcome => ({ kind: "error", error: encodeThrown(error) }))
          .then((outcome) => from.thread?.send({ kind: "task-end", taskId, outcome }));
        return;
      }
    }
  }

  #onLog(record: ActorRecord, level: LogLevel, fields: PackedValue, message: string): void {
    const { id, name } = record.actor;
    const own = this.#directory.unpack(fields) as Record<string, unknown>;
    this.#logger[level](
      { ...own, actorId: id, ...(name === undefined ? {} : { actorName: name }) },
      message,
    );
  }

  #onDeath(record: ActorRecord, report: DeathReport): void {
    // A failed start is told to whoever spawned; the rest may have no listener but the log.
    const expected = ["stopped", "killed", "start-failed"].includes(report.cause);
    this.#logger[expected ? "debug" : "error"](
      {
        actorId: record.actor.id,
        cause: report.cause,
        exitCode: report.exitCode,
        err: report.error,
      },
      `${labelText(record.actor)} is dead: ${report.cause}`,
    );
    this.actors.markDead(record, report);
    record.death.abort();
    this.#directory.announceDeath(record.actor.id, report);
    const message = endMessage(record.actor.id, report);
    for (const living of this.actors.living()) living.thread?.send(message);
  }
}

function endMessage(actorId: string, report: DeathReport): ToActor {
  return { kind: "actor-end", actorId, report: encodeReport(report) };
}

/** An id without a report is one this runtime never had: a descriptor made by hand. */
function reportOf(record: ActorRecord | undefined): DeathReport {
  return (
    record?.report ?? {
      cause: "exit",
      exitCode: null,
      error: new Error("This runtime never had the actor."),
      lastLogs: [],
      uptimeMs: 0,
    }
  );
}

function startError(
  { actor }: ActorRecord,
  report: DeathReport | undefined,
  thrown?: unknown,
): ActorStartError {
  const cause = report === undefined ? thrown : report.error;
  const ended = report === undefined ? "" : ` (${report.cause}, exit code ${report.exitCode})`;
  const why =
    cause instanceof Error ? `: ${cause.message}` : cause === undefined ? "" : `: ${cause}`;
  const message = `${labelText(actor)} did not start${ended}${why}`;
  return new ActorStartError(actor.id, message, cause === undefined ? {} : { cause }, report);
}
