/**
 * All actors that one thread knows, by id: the main thread has one for each runtime, an actor's thread has one.
 * It turns handles into descriptors and back, and hands the news of each actor to the connection it concerns.
 *
 * It does not own actors: how to reach one is the business of the `ActorLink` it is given.
 *
 * D1. One connection for each actor, so that all handles of a thread share one order.
 * D2. A dead actor's connection is forgotten. A handle that arrives later is connected anew and told of the death.
 */
import { Connection, type ConnectionOwner } from "./connection.js";
import {
  decodeError,
  decodeThrown,
  type ErrorSpecial,
  encodeNestedError,
  encodeThrown,
} from "./error-wire.js";
import type { DeathReport } from "./errors.js";
import { type ActorEnder, ActorHandle } from "./handle.js";
import type { ActorDescriptor, ActorNews, WireReport } from "./protocol.js";
import { sharedCells } from "./shared-places.js";
import {
  type PackedValue,
  type Parcel,
  packParcel,
  UncloneableError,
  unpack,
} from "./wire-value.js";

/** How a thread reaches the actors. */
export interface ActorLink extends ActorEnder {
  /** Asks for a lane to the actor. The directory hears of it, or of the actor's death, by `tell`. */
  connectActor(actorId: string, held: Int32Array): void;
}

export class ActorDirectory implements ConnectionOwner {
  readonly #link: ActorLink;
  readonly #connections = new Map<string, Connection>();
  readonly #encodeError = encodeNestedError(0);

  constructor(link: ActorLink) {
    this.#link = link;
  }

  handleOf<A>(actor: ActorDescriptor): ActorHandle<A> {
    return new ActorHandle<A>(this.#connectionTo(actor), this.#link);
  }

  /** News of an actor, for the connection that this thread may have. */
  tell(news: ActorNews): void {
    const connection = this.#connections.get(news.actorId);
    switch (news.kind) {
      case "actor-lane":
        if (connection === undefined) news.lane.port.close();
        else connection.connect(news.lane);
        return;
      case "actor-restarting":
        connection?.restarting(decodeReport(news.report));
        return;
      case "actor-end":
        this.#connections.delete(news.actorId);
        connection?.died(decodeReport(news.report));
    }
  }

  crashActor(actorId: string): void {
    this.#link.killActor(actorId, true);
  }

  /** @throws UncloneableError naming the path; also for a handle of another runtime. */
  pack(value: unknown): Parcel {
    return packParcel(value, (object) => this.#encodeSpecial(object));
  }

  unpack(packed: PackedValue): unknown {
    return unpack(packed, (encoded) => {
      const special = encoded as { readonly actor: ActorDescriptor } | ErrorSpecial;
      return "actor" in special ? this.handleOf(special.actor) : decodeError(special.nestedError);
    });
  }

  #connectionTo(actor: ActorDescriptor): Connection {
    const known = this.#connections.get(actor.id);
    if (known !== undefined) return known;
    const held = sharedCells(1);
    const connection = new Connection(actor, held, this);
    this.#connections.set(actor.id, connection);
    this.#link.connectActor(actor.id, held);
    return connection;
  }

  #encodeSpecial(object: object): unknown {
    const connection = ActorHandle.connectionOf(object);
    if (connection === undefined) return this.#encodeError(object);
    if (!connection.belongsTo(this))
      throw new UncloneableError(
        `a handle of ${connection.actor.id} of another runtime cannot be sent`,
      );
    return { actor: connection.actor };
  }
}

export function encodeReport({ error, ...report }: DeathReport): WireReport {
  return error === undefined ? report : { ...report, error: encodeThrown(error) };
}

function decodeReport({ error, ...report }: WireReport): DeathReport {
  return error === undefined ? report : { ...report, error: decodeThrown(error) };
}
