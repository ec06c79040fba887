/**
 * All that the threads say to each other. Two lanes: the worker's own port carries control messages between an
 * actor's thread and the main thread; one MessagePort for each pair of calling thread and actor carries calls, in
 * Comlink's shapes with an `Invocation` as the only argument and an `Outcome` as the result.
 */
import type { MessagePort } from "node:worker_threads";
import type { WireThrown } from "./error-wire.js";
import type { DeathReport } from "./errors.js";
import type { LogLevel } from "./logger.js";
import type { PackedValue } from "./wire-value.js";

/** What a handle is on the wire. The receiving thread asks the main thread for a connection by `id`. */
export interface ActorDescriptor {
  readonly id: string;
  readonly name: string | undefined;
  readonly maxConcurrency: number;
}

/** `workerData` of an actor's thread. The marker tells it from any other worker, vitest's and Piscina's included. */
export interface ActorStart {
  readonly corral: "actor";
  readonly actor: ActorDescriptor;
  /** File URL of the actor module, and the name of the definition in it. */
  readonly module: string;
  readonly definition: string;
  readonly options: PackedValue;
  /** Where the thread notes the method it started last; readable after any death. */
  readonly lastMethod: SharedArrayBuffer;
}

/** One call. */
export interface Invocation {
  readonly method: string;
  readonly args: PackedValue;
}

/** How a call ended. The last two are made on the caller's side of the wire, by its endpoint. */
export type Outcome =
  | { readonly kind: "value"; readonly value: PackedValue }
  | { readonly kind: "error"; readonly error: WireThrown }
  | { readonly kind: "not-cloneable"; readonly what: string }
  | { readonly kind: "died" };

/** The one function that an actor's thread exposes. */
export interface InvocationTarget {
  invoke(invocation: Invocation): Promise<Outcome>;
}

/** A `DeathReport` with its error encoded. */
export type WireReport = Omit<DeathReport, "error"> & { readonly error?: WireThrown };

/** One stateless task. */
export interface TaskRequest {
  /** File URL. */
  readonly module: string;
  readonly exportName: string;
  readonly args: PackedValue;
}

/** From the main thread to an actor's thread. */
export type ToActor =
  /** A thread holds a handle of this actor: answer calls that come through `port`. */
  | { readonly kind: "holder-connect"; readonly port: MessagePort }
  /** Finish what runs, run the stop hook, exit. */
  | { readonly kind: "stop" }
  | { readonly kind: "actor-end"; readonly actorId: string; readonly report: WireReport }
  | { readonly kind: "task-end"; readonly taskId: number; readonly outcome: Outcome };

/** From an actor's thread to the main thread. */
export type ToMain =
  | { readonly kind: "ready" }
  | { readonly kind: "start-error"; readonly error: WireThrown }
  | { readonly kind: "stop-error"; readonly error: WireThrown }
  /** Sent before Node ends the thread; the only place where the origin is known. */
  | { readonly kind: "uncaught"; readonly rejection: boolean; readonly error: WireThrown }
  | {
      readonly kind: "log";
      readonly level: LogLevel;
      readonly fields: PackedValue;
      readonly message: string;
    }
  | { readonly kind: "actor-connect"; readonly actorId: string; readonly port: MessagePort }
  | { readonly kind: "actor-stop"; readonly actorId: string; readonly deadlineMs: number }
  | { readonly kind: "actor-kill"; readonly actorId: string }
  | {
      readonly kind: "task-start";
      readonly taskId: number;
      readonly task: TaskRequest;
      readonly timeoutMs: number | undefined;
    };
