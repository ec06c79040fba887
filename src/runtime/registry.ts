/** The actors of one runtime, by id and by name: what is alive, and why the dead died. */
import type { ActorThread } from "./actor-thread.js";
import { ActorNameError, type DeathReport, labelText } from "./errors.js";
import type { ActorDescriptor } from "./protocol.js";

export type ActorState = "PENDING_CREATION" | "ALIVE" | "DEAD";

/** One line of `runtime.list()`. */
export interface ActorStatus {
  readonly id: string;
  readonly name: string | undefined;
  readonly definition: string;
  readonly state: ActorState;
  readonly stopStage: number;
  /** Present when DEAD. */
  readonly report?: DeathReport;
}

/** An actor as the main thread keeps it. */
export interface ActorRecord {
  readonly actor: ActorDescriptor;
  readonly definition: string;
  readonly stopStage: number;
  /** Aborted at the actor's death: ends the tasks it waits for. */
  readonly death: AbortController;
  state: ActorState;
  thread?: ActorThread;
  report?: DeathReport;
}

/** Reports of older dead lose their logs and error: ids stay answerable without growing by much. */
const FULL_REPORTS = 1000;

export class ActorRegistry {
  readonly #records = new Map<string, ActorRecord>();
  readonly #names = new Map<string, ActorRecord>();
  readonly #dead: ActorRecord[] = [];

  /** @throws ACTOR_NAME_TAKEN when a live actor has the name. */
  add(record: ActorRecord): void {
    const { name } = record.actor;
    if (name !== undefined) {
      const holder = this.#names.get(name);
      if (holder !== undefined) throw new ActorNameError(name, labelText(holder.actor));
      this.#names.set(name, record);
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

  markDead(record: ActorRecord, report: DeathReport): void {
    record.state = "DEAD";
    record.report = report;
    delete record.thread;
    this.#releaseName(record);
    this.#dead.push(record);
    const oldest = this.#dead.length > FULL_REPORTS ? this.#dead.shift() : undefined;
    if (oldest?.report !== undefined) {
      const { error: _error, ...rest } = oldest.report;
      oldest.report = { ...rest, lastLogs: [] };
    }
  }

  /** Actors that have a thread. */
  living(): ActorRecord[] {
    return [...this.#records.values()].filter((record) => record.thread !== undefined);
  }

  list(): ActorStatus[] {
    return [...this.#records.values()].map(({ actor, definition, state, stopStage, report }) => ({
      id: actor.id,
      name: actor.name,
      definition,
      state,
      stopStage,
      ...(report === undefined ? {} : { report }),
    }));
  }

  #releaseName({ actor }: ActorRecord): void {
    if (actor.name !== undefined && this.#names.get(actor.name)?.actor.id === actor.id)
      this.#names.delete(actor.name);
  }
}
