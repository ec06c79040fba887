/** The actors of one runtime, by id and by name: what is alive, and why the dead died. */
import type { ActorLife, ActorState } from "./actor-life.js";
import { ActorNameError, type DeathReport, labelText } from "./errors.js";
import { type ActorDescriptor, PENDING_CELLS } from "./protocol.js";

/** One line of `runtime.list()`. */
export interface ActorStatus {
  readonly id: string;
  readonly name: string | undefined;
  readonly namespace: string;
  readonly definition: string;
  readonly state: ActorState;
  /** How often it was restarted. */
  readonly restarts: number;
  /** Calls of all holders that are made and not ended. */
  readonly pendingCalls: number;
  readonly stopStage: number;
  /** Why it died last. Present when RESTARTING or DEAD. */
  readonly report?: DeathReport;
}

/** An actor as the main thread keeps it. */
export interface ActorRecord {
  readonly actor: ActorDescriptor;
  readonly definition: string;
  /** URL of the module that defines it. */
  readonly module: string;
  readonly stopStage: number;
  /** Pending calls of each thread that holds a handle, by the id of its actor. */
  readonly holders: Map<string, Int32Array>;
  /** Aborted at the death of its thread: ends the tasks it waits for. */
  taskAbort: AbortController;
  /** Undefined only while its first thread is being made. */
  life: ActorLife | undefined;
}

/** Older dead are forgotten; who asks for one is told that it is dead, not why. */
const KEPT_DEAD = 1000;

export class ActorRegistry {
  readonly #records = new Map<string, ActorRecord>();
  readonly #names = new Map<string, ActorRecord>();
  readonly #dead: ActorRecord[] = [];

  /** @throws ACTOR_NAME_TAKEN when a live actor has the name. */
  add(record: ActorRecord): void {
    const { name, namespace } = record.actor;
    if (name !== undefined) {
      const holder = this.named(name, namespace);
      if (holder !== undefined) throw new ActorNameError(name, namespace, labelText(holder.actor));
      this.#names.set(nameKey(name, namespace), record);
    }
    this.#records.set(record.actor.id, record);
  }

  /** Forgets an actor that never had a thread. */
  remove(record: ActorRecord): void {
    this.#records.delete(record.actor.id);
    this.#releaseName(record);
  }

  get(actorId: string): ActorRecord | undefined {
    return this.#records.get(actorId);
  }

  /** The live actor that has the name. */
  named(name: string, namespace: string): ActorRecord | undefined {
    return this.#names.get(nameKey(name, namespace));
  }

  onDead(record: ActorRecord): void {
    this.#releaseName(record);
    record.holders.clear();
    this.#dead.push(record);
    const oldest = this.#dead.length > KEPT_DEAD ? this.#dead.shift() : undefined;
    if (oldest !== undefined) this.#records.delete(oldest.actor.id);
  }

  all(): Iterable<ActorRecord> {
    return this.#records.values();
  }

  /** Actors that are not dead. */
  living(): ActorRecord[] {
    return [...this.#records.values()].filter(({ life }) => life?.state !== "DEAD");
  }

  list(): ActorStatus[] {
    return [...this.#records.values()].map(({ actor, definition, stopStage, life }) => ({
      id: actor.id,
      name: actor.name,
      namespace: actor.namespace,
      definition,
      state: life?.state ?? "PENDING_CREATION",
      restarts: life?.restarts ?? 0,
      pendingCalls: Atomics.load(actor.pending, PENDING_CELLS.taken),
      stopStage,
      ...(life?.report === undefined || life.state === "ALIVE" ? {} : { report: life.report }),
    }));
  }

  #releaseName({ actor }: ActorRecord): void {
    const { id, name, namespace } = actor;
    if (name !== undefined && this.named(name, namespace)?.actor.id === id)
      this.#names.delete(nameKey(name, namespace));
  }
}

function nameKey(name: string, namespace: string): string {
  return JSON.stringify([namespace, name]);
}
