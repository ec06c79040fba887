/**
 * All actors of one runtime, seen from the main thread: starts them, connects whoever holds a handle, and tells
 * every holder what becomes of them.
 *
 * S1. Every holder is told of every death and gets a new lane after every restart, so that none waits for an answer
 *     that cannot come (R1, R4).
 * S2. Whoever connects to a dead actor is told so at once.
 * S3. The tasks a dead actor waited for are ended: nobody would take their result.
 * S4. What a dead thread held of other actors' places is given back (R3).
 */
import { MessageChannel } from "node:worker_threads";
import { ActorLife } from "./actor-life.js";
import type { ActorRequest } from "./actor-thread.js";
import type { ActorDefinition } from "./define-actor.js";
import { describeActor } from "./descriptor.js";
import { ActorDirectory, encodeReport } from "./directory.js";
import { encodeThrown } from "./error-wire.js";
import {
  ActorNameError,
  ActorStartError,
  type DeathReport,
  labelText,
  SerializationError,
} from "./errors.js";
import type { RuntimeEvents } from "./events.js";
import type { ActorHandle } from "./handle.js";
import type { ActorLogger, LogLevel } from "./logger.js";
import type { ResolvedSpawnOptions } from "./options.js";
import { type ActorNews, LANE_CELLS, type Outcome, PENDING_CELLS } from "./protocol.js";
import { type ActorRecord, ActorRegistry } from "./registry.js";
import { RestartPolicy } from "./restart-policy.js";
import { Places, sharedCells } from "./shared-places.js";
import { startError, unknownDeath } from "./start-error.js";
import type { TaskPool } from "./tasks.js";
import { type PackedValue, UncloneableError } from "./wire-value.js";

/** The main thread among the holders; no actor's id looks like it. */
const MAIN = "";

interface SupervisorParts {
  readonly logger: ActorLogger;
  readonly tasks: TaskPool;
  readonly events: RuntimeEvents;
  /** Take the times of all calls. */
  readonly trace: boolean;
}

export class Supervisor {
  readonly actors = new ActorRegistry();
  readonly #directory: ActorDirectory;
  readonly #parts: SupervisorParts;
  #lastNumber = 0;

  constructor(parts: SupervisorParts) {
    this.#parts = parts;
    this.#directory = new ActorDirectory({
      connectActor: (actorId, held) => this.#connect(MAIN, actorId, held),
      stopActor: (actorId, deadlineMs) => this.actors.get(actorId)?.life?.stop(deadlineMs),
      killActor: (actorId, restart) => this.actors.get(actorId)?.life?.kill(restart),
    });
  }

  async start<A extends object, O>(
    definition: ActorDefinition<A, O>,
    options: O,
    resolved: ResolvedSpawnOptions,
  ): Promise<ActorHandle<A>> {
    // No `await` between the look at the name and taking it: concurrent creators must get one actor.
    for (;;) {
      const named = resolved.getIfExists ? this.#named(definition, resolved) : undefined;
      if (named === undefined) break;
      // One whose start fails gives its name back: the next creator's turn.
      if ((await named.life?.started) === true) return this.handleOf<A>(named);
    }
    const record: ActorRecord = {
      actor: describeActor(`${definition.name}-${++this.#lastNumber}`, definition, resolved),
      definition: definition.name,
      module: definition.module,
      stopStage: resolved.stopStage,
      holders: new Map(),
      taskAbort: new AbortController(),
      life: undefined,
    };
    this.actors.add(record);
    const life = this.#bear(record, definition, options, resolved);
    this.#parts.events.actor(record, "PENDING_CREATION");
    if (await life.started) return this.#directory.handleOf<A>(record.actor);
    throw startError(record.actor, life.report);
  }

  handleOf<A>(record: ActorRecord): ActorHandle<A> {
    return this.#directory.handleOf<A>(record.actor);
  }

  /** The live actor that has the name. @throws ACTOR_NAME_TAKEN when it is of another definition */
  #named<A extends object, O>(
    definition: ActorDefinition<A, O>,
    { name = "", namespace }: ResolvedSpawnOptions,
  ): ActorRecord | undefined {
    const record = this.actors.named(name, namespace);
    if (record === undefined) return undefined;
    if (record.module === definition.module && record.definition === definition.name) return record;
    const holder = `${labelText(record.actor)}, another kind of actor`;
    throw new ActorNameError(name, namespace, holder);
  }

  #bear<A extends object, O>(
    record: ActorRecord,
    definition: ActorDefinition<A, O>,
    options: O,
    resolved: ResolvedSpawnOptions,
  ): ActorLife {
    try {
      const birth = {
        actor: record.actor,
        module: definition.module,
        definition: definition.name,
        options: this.#packOptions(record, definition, options),
        trace: this.#parts.trace,
      };
      const life = new ActorLife(birth, resolved, new RestartPolicy(resolved.restart), {
        onAlive: () => this.#onAlive(record),
        onRestarting: (report, waitMs) => this.#onRestarting(record, report, waitMs),
        onDead: (report) => this.#onDead(record, report),
        onRequest: (request) => this.#onRequest(record, request),
        onLog: (level, fields, message) => this.#onLog(record, level, fields, message),
        onSpans: (spans) => this.#parts.events.spans(record, spans),
      });
      record.life = life;
      return life;
    } catch (error) {
      this.actors.remove(record);
      if (error instanceof ActorStartError || error instanceof SerializationError) throw error;
      throw startError(record.actor, undefined, error);
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
      throw startError(record.actor, undefined, error);
    }
    try {
      // A snapshot: a restart must not see what the caller has changed since.
      return structuredClone(this.#directory.pack(parsed).packed);
    } catch (error) {
      if (!(error instanceof UncloneableError) && !(error instanceof DOMException)) throw error;
      throw new SerializationError(record.actor, "create", `option ${error.message}`, {
        cause: error,
      });
    }
  }

  #connect(holder: string, actorId: string, held: Int32Array): void {
    const record = this.actors.get(actorId);
    const life = record?.life;
    if (record === undefined || life === undefined || life.state === "DEAD") {
      const report = encodeReport(life?.report ?? unknownDeath());
      this.#tell(holder, { kind: "actor-end", actorId, report });
      return;
    }
    record.holders.set(holder, held);
    if (life.state === "ALIVE") this.#openLane(record, life, holder, held);
    else if (life.report !== undefined)
      this.#tell(holder, { kind: "actor-restarting", actorId, report: encodeReport(life.report) });
  }

  #openLane(record: ActorRecord, life: ActorLife, holder: string, held: Int32Array): void {
    const { port1, port2 } = new MessageChannel();
    const cells = sharedCells(LANE_CELLS.held + record.actor.groupLimits.length);
    const lane = { port: port1, cells, running: life.running };
    life.thread?.send({ kind: "holder-connect", lane: { port: port2, cells, held } });
    this.#tell(holder, { kind: "actor-lane", actorId: record.actor.id, lane });
  }

  #tell(holder: string, news: ActorNews): void {
    if (holder === MAIN) this.#directory.tell(news);
    else this.actors.get(holder)?.life?.thread?.send(news);
  }

  #onRequest(from: ActorRecord, request: ActorRequest): void {
    switch (request.kind) {
      case "actor-connect":
        this.#connect(from.actor.id, request.actorId, request.held);
        return;
      case "actor-stop":
        this.actors.get(request.actorId)?.life?.stop(request.deadlineMs);
        return;
      case "actor-kill":
        this.actors.get(request.actorId)?.life?.kill(request.restart);
        return;
      case "task-start": {
        const { taskId, task, timeoutMs } = request;
        const thread = from.life?.thread;
        void this.#parts.tasks
          .run(task, timeoutMs, from.taskAbort.signal)
          .catch((error: unknown): Outcome => ({ kind: "error", error: encodeThrown(error) }))
          .then((outcome) => thread?.send({ kind: "task-end", taskId, outcome }));
        return;
      }
    }
  }

  #onLog(record: ActorRecord, level: LogLevel, fields: PackedValue, message: string): void {
    const own = this.#directory.unpack(fields) as Record<string, unknown>;
    this.#parts.logger[level]({ ...own, ...logLabel(record) }, message);
  }

  #onAlive(record: ActorRecord): void {
    this.#parts.events.actor(record, "ALIVE");
    const { life } = record;
    if (life === undefined) return;
    for (const [holder, held] of record.holders) this.#openLane(record, life, holder, held);
  }

  #onRestarting(record: ActorRecord, report: DeathReport, waitMs: number): void {
    this.#logDeath(record, report, `restarting in ${Math.round(waitMs)} ms`, "warn");
    this.#onThreadEnd(record);
    // Only the actor's thread counts who waits, and it is gone.
    Atomics.store(record.actor.pending, PENDING_CELLS.waiting, 0);
    this.#tellHolders(record, "actor-restarting", report);
    this.#parts.events.actor(record, "RESTARTING", report);
  }

  #onDead(record: ActorRecord, report: DeathReport): void {
    // A failed start is told to whoever spawned; the rest may have no listener but the log.
    const expected = ["stopped", "killed", "start-failed"].includes(report.cause);
    this.#logDeath(record, report, "dead", expected ? "debug" : "error");
    this.#onThreadEnd(record);
    this.#tellHolders(record, "actor-end", report);
    this.actors.onDead(record);
    this.#parts.events.actor(record, "DEAD", report);
  }

  #tellHolders(
    record: ActorRecord,
    kind: "actor-restarting" | "actor-end",
    report: DeathReport,
  ): void {
    const news = { kind, actorId: record.actor.id, report: encodeReport(report) };
    for (const holder of record.holders.keys()) this.#tell(holder, news);
  }

  #onThreadEnd(record: ActorRecord): void {
    record.taskAbort.abort();
    record.taskAbort = new AbortController();
    for (const { actor, holders, life } of this.actors.all()) {
      const held = holders.get(record.actor.id);
      if (held === undefined) continue;
      holders.delete(record.actor.id);
      const taken = { cells: actor.pending, at: PENDING_CELLS.taken };
      new Places(actor.maxPendingCalls, taken, { cells: held, at: 0 }).giveBackAll();
      life?.thread?.send({ kind: "places-freed" });
    }
  }

  #logDeath(record: ActorRecord, report: DeathReport, what: string, level: LogLevel): void {
    const { cause, exitCode, error } = report;
    const message = `${labelText(record.actor)} is ${what}: ${cause}`;
    this.#parts.logger[level]({ ...logLabel(record), cause, exitCode, err: error }, message);
  }
}

function logLabel({ actor: { id, name } }: ActorRecord): Record<string, unknown> {
  return { actorId: id, ...(name === undefined ? {} : { actorName: name }) };
}
