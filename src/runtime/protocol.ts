/**
 * All that the threads say to each other. Two lanes: the worker's own port carries control messages between an
 * actor's thread and the main thread, and calls never delay it; one MessagePort for each pair of calling thread and
 * actor carries calls.
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
  readonly namespace: string;
  /** Calls at a time, for each concurrency group; the first is the default group. */
  readonly groupLimits: readonly number[];
  /** Only methods that differ from the defaults: the first group, not idempotent. */
  readonly methods: ReadonlyMap<string, MethodTraits>;
  /** Infinity: no limit. */
  readonly maxPendingCalls: number;
  readonly onFull: "reject" | "wait";
  readonly maxTaskRetries: number;
  /** Shared by all holders for the actor's whole life: calls that are made and not ended. See `PENDING_CELLS`. */
  readonly pending: Int32Array;
}

/** What the callers know of a method. */
export interface MethodTraits {
  /** Index into `groupLimits`. */
  readonly group: number;
  /** May run again when the actor died during it. */
  readonly idempotent: boolean;
}

/** Resource 0 is the pending calls; resource 1 + g the places of group g. */
export const PENDING = 0;
export const resourceOfGroup = (group: number): number => group + 1;

/** Cells of `ActorDescriptor.pending`. */
export const PENDING_CELLS = { taken: 0, waiting: 1, count: 2 } as const;

/** Cells of a lane: the id of the call that started last, then the places its caller holds in each group. */
export const LANE_CELLS = { started: 0, held: 1 } as const;

/** `workerData` of an actor's thread. The marker tells it from any other worker, vitest's and Piscina's included. */
export interface ActorStart {
  readonly corral: "actor";
  readonly actor: ActorDescriptor;
  /** File URL of the actor module, and the name of the definition in it. */
  readonly module: string;
  readonly definition: string;
  readonly options: PackedValue;
  readonly restartCount: number;
  /** Where the thread notes the method it started last; readable after any death. */
  readonly lastMethod: SharedArrayBuffer;
  /** Calls that run, for each group; shared with all holders. New for each thread of the actor. */
  readonly running: Int32Array;
  /** Send the time of each call. */
  readonly trace: boolean;
}

/** How calls of one thread reach one thread of an actor. */
interface LaneEnd {
  readonly port: MessagePort;
  /** See `LANE_CELLS`. */
  readonly cells: Int32Array;
}

/** The caller's end. */
export interface CallerLane extends LaneEnd {
  readonly running: Int32Array;
}

/** The actor's end. */
export interface ActorLane extends LaneEnd {
  /** Pending calls of that caller. */
  readonly held: Int32Array;
}

type Specials = PackedValue["specials"];

/** From a caller to an actor. Ids count up from 1 within a lane, in the order of sending. */
export type ToCallee =
  | readonly [
      kind: "call",
      id: number,
      method: string,
      args: unknown,
      specials: Specials,
      mode: CallMode,
    ]
  | readonly [kind: "cancel", id: number]
  /** The consumer of a stream took so many items. */
  | readonly [kind: "credit", id: number, items: number]
  /** One more call waits for a place of the resource. */
  | readonly [kind: "want", resource: number]
  /** A place of the resource came free in the caller's thread. */
  | readonly [kind: "freed", resource: number];

/** Only a call that its caller can cancel pays for a context of its own. */
export type CallMode = "plain" | "cancellable" | "stream";

/** From an actor to a caller. */
export type ToCaller =
  | readonly [kind: "value", id: number, value: unknown, specials: Specials]
  | readonly [kind: "error", id: number, error: WireThrown]
  | readonly [kind: "not-cloneable", id: number, what: string]
  | readonly [kind: "item", id: number, value: unknown, specials: Specials]
  | readonly [kind: "grant", resource: number];

/** How a stateless task ended. */
export type Outcome =
  | { readonly kind: "value"; readonly value: PackedValue }
  | { readonly kind: "error"; readonly error: WireThrown }
  | { readonly kind: "not-cloneable"; readonly what: string };

/** A `DeathReport` with its error encoded. */
export type WireReport = Omit<DeathReport, "error"> & { readonly error?: WireThrown };

/** One stateless task. */
export interface TaskRequest {
  /** File URL. */
  readonly module: string;
  readonly exportName: string;
  readonly args: PackedValue;
}

/** What every holder of a handle hears of its actor. */
export type ActorNews =
  | { readonly kind: "actor-lane"; readonly actorId: string; readonly lane: CallerLane }
  /** The thread is dead; another one will be started. */
  | { readonly kind: "actor-restarting"; readonly actorId: string; readonly report: WireReport }
  | { readonly kind: "actor-end"; readonly actorId: string; readonly report: WireReport };

/** From the main thread to an actor's thread. */
export type ToActor =
  /** A thread holds a handle of this actor: answer the calls that come through the lane. */
  | { readonly kind: "holder-connect"; readonly lane: ActorLane }
  /** The pending calls of a caller that is gone were given back. */
  | { readonly kind: "places-freed" }
  /** Finish what runs, run the stop hook, exit. */
  | { readonly kind: "stop" }
  | { readonly kind: "ping" }
  | ActorNews
  | { readonly kind: "task-end"; readonly taskId: number; readonly outcome: Outcome };

/** One call as the timeline shows it. Times are ms since the epoch, with fractions. */
export type CallSpan = readonly [method: string, startMs: number, endMs: number, failed: boolean];

/** From an actor's thread to the main thread. */
export type ToMain =
  | { readonly kind: "ready" }
  | { readonly kind: "pong" }
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
  /** What the thread wrote to its stdout or stderr. */
  | { readonly kind: "output"; readonly stream: "stdout" | "stderr"; readonly text: string }
  | { readonly kind: "spans"; readonly spans: readonly CallSpan[] }
  | { readonly kind: "actor-connect"; readonly actorId: string; readonly held: Int32Array }
  | { readonly kind: "actor-stop"; readonly actorId: string; readonly deadlineMs: number }
  | { readonly kind: "actor-kill"; readonly actorId: string; readonly restart: boolean }
  | {
      readonly kind: "task-start";
      readonly taskId: number;
      readonly task: TaskRequest;
      readonly timeoutMs: number | undefined;
    };
