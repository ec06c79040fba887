/**
 * All actors that one thread knows, by id: the main thread has one for each runtime, an actor's thread has one.
 * It turns handles into descriptors and back, and hands each death to the connection it ends.
 *
 * It does not own actors: how to reach one is the business of the `ActorLink` it is given.
 *
 * D1. One connection for each actor, so that all handles of a thread share one order.
 * D2. A dead actor's connection is forgotten. A handle that arrives later is connected anew and told of the death.
 */
import { MessageChannel, type MessagePort } from "node:worker_threads";
import { Connection, type ValueCodec } from "./connection.js";
import {
  decodeError,
  decodeThrown,
  type ErrorSpecial,
  encodeNestedError,
  encodeThrown,
} from "./error-wire.js";
import type { DeathReport } from "./errors.js";
import { type ActorEnder, ActorHandle } from "./handle.js";
import type { ActorDescriptor, WireReport } from "./protocol.js";
import { type PackedValue, pack, UncloneableError, unpack } from "./wire-value.js";

/** How a thread reaches the actors. */
export interface ActorLink extends ActorEnder {
  /** Gives the actor the other end of a lane, or announces its death to the directory. */
  connectActor(actorId: string, port: MessagePort): void;
}

export class ActorDirectory implements ValueCodec {
  readonly #link: ActorLink;
  readonly #connections = new Map<string, Connection>();
  readonly #encodeError = encodeNestedError(0);

  constructor(link: ActorLink) {
    this.#link = link;
  }

  handleOf<A>(actor: ActorDescriptor): ActorHandle<A> {
    return new ActorHandle<A>(this.#connectionTo(actor), this.#link);
  }

  /** Ends the connection to a dead actor, if this thread has one. */
  announceDeath(actorId: string, report: DeathReport): void {
    const connection = this.#connections.get(actorId);
    this.#connections.delete(actorId);
    connection?.died(report);
  }

  /** @throws UncloneableError naming the path; also for a handle of another runtime. */
  pack(value: unknown): PackedValue {
    return pack(value, (object) => this.#encodeSpecial(object));
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
    const { port1, port2 } = new MessageChannel();
    const connection = new Connection(actor, port1, this);
    this.#connections.set(actor.id, connection);
    this.#link.connectActor(actor.id, port2);
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

export function decodeReport({ error, ...report }: WireReport): DeathReport {
  return error === undefined ? report : { ...report, error: decodeThrown(error) };
}
