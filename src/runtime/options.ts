/** Options are checked once, here; a bad value names the option, the value and what is allowed. */
import { availableParallelism } from "node:os";
import type { ActorLogger } from "./logger.js";
import type { CallOptions } from "./outgoing-call.js";

export interface RuntimeOptions {
  /** Gets the actors' records and the runtime's own. Default: pino to stderr, level `info`. */
  readonly logger?: ActorLogger;
  /** Threads for stateless tasks, 1 to 256, started when needed. Default: cores − 1, from 1 to 4. */
  readonly taskThreads?: number;
  /** Where names live that are given without a namespace. Default `default`. */
  readonly namespace?: string;
  /** A file that gets the timeline of all calls as a Chrome trace, for Perfetto or chrome://tracing. Default: none. */
  readonly traceFile?: string;
}

export interface SpawnOptions {
  /** Unique among the live actors of its namespace. */
  readonly name?: string;
  /** Default: the runtime's. */
  readonly namespace?: string;
  /** With `name`: return the live actor of that name and definition if there is one, also one that is starting. */
  readonly getIfExists?: boolean;
  /** Calls that may run in the actor at the same time, from all callers together; 1 to 1 000 000. Default 1. */
  readonly maxConcurrency?: number;
  /** Calls that may be made and not ended, from all callers together; 1 to 1 000 000. Default: no limit. */
  readonly maxPendingCalls?: number;
  /** What a call does over `maxPendingCalls`: reject, or wait in its caller until there is room. Default `reject`. */
  readonly onFull?: "reject" | "wait";
  /** Restarts after a death nobody asked for, 0 to 1 000 000, or -1 for no limit. Default 0. */
  readonly maxRestarts?: number;
  /** Only restarts of the last so many ms count towards `maxRestarts`. Default: all count. */
  readonly restartWindowMs?: number;
  /** Shortest and longest wait before a restart, in ms; it doubles from one restart to the next. Default 100, 30 000. */
  readonly backoffMs?: readonly [min: number, max: number];
  /** How often a call of an idempotent method runs again after the actor died during it, 0 to 1000. Default 3. */
  readonly maxTaskRetries?: number;
  /**
   * Ends the actor with cause `hang` when its event loop has not turned for so many ms, from 100. A synchronous
   * computation looks the same, so give more than the longest one. Default: never.
   */
  readonly hangTimeoutMs?: number;
  /** When `shutdown` stops the actor: stage 0 first, the highest last; 0 to 100. Default 0. */
  readonly stopStage?: number;
  /** Limit of the thread's old-generation heap in MiB, 16 to 1 048 576. ArrayBuffers do not count. Default: as main. */
  readonly maxHeapMiB?: number;
  /** Time from the start of the thread until `create` must have ended, in ms, from 1. Default 60 000. */
  readonly startTimeoutMs?: number;
}

/** `round-robin`: one after the other. `least-busy`: the one with the fewest pending calls, of all callers. */
export type Route = "round-robin" | "least-busy";

export interface GroupOptions extends SpawnOptions {
  /** Members of the group, 1 to 4096. */
  readonly numWorkers: number;
  /** Which member a call goes to. Default `round-robin`; `forKey` of the group is sticky whatever this says. */
  readonly route?: Route;
}

export interface ResolvedSpawnOptions {
  readonly name: string | undefined;
  readonly namespace: string;
  readonly getIfExists: boolean;
  readonly maxConcurrency: number;
  /** Infinity: no limit. */
  readonly maxPendingCalls: number;
  readonly onFull: "reject" | "wait";
  readonly maxTaskRetries: number;
  readonly restart: RestartOptions;
  readonly hangTimeoutMs: number | undefined;
  readonly stopStage: number;
  readonly maxHeapMiB: number | undefined;
  readonly startTimeoutMs: number;
}

export interface RestartOptions {
  /** Infinity: no limit. */
  readonly maxRestarts: number;
  /** Infinity: all restarts count. */
  readonly windowMs: number;
  readonly minBackoffMs: number;
  readonly maxBackoffMs: number;
}

const MAX_MS = 2 ** 31 - 1;
const SPAWN_KEYS = [
  "name",
  "namespace",
  "getIfExists",
  "maxConcurrency",
  "maxPendingCalls",
  "onFull",
  "maxRestarts",
  "restartWindowMs",
  "backoffMs",
  "maxTaskRetries",
  "hangTimeoutMs",
  "stopStage",
  "maxHeapMiB",
  "startTimeoutMs",
];

/** @throws TypeError or RangeError that names the option. */
export function resolveSpawnOptions(
  options: SpawnOptions,
  namespace: string,
): ResolvedSpawnOptions {
  refuseUnknown("spawn", options, SPAWN_KEYS);
  const { name, getIfExists = false, onFull = "reject" } = options;
  if (name !== undefined) text("spawn: name", name);
  if (getIfExists !== false && (getIfExists !== true || name === undefined))
    throw new TypeError(`spawn: getIfExists is ${String(getIfExists)}; allowed is true, with name`);
  if (onFull !== "reject" && onFull !== "wait")
    throw new TypeError(`spawn: onFull is ${JSON.stringify(onFull)}; allowed: "reject", "wait"`);
  const limited = (key: "maxHeapMiB" | "hangTimeoutMs", min: number, max: number) => {
    const value = options[key];
    return value === undefined ? undefined : integer(`spawn: ${key}`, value, min, max);
  };
  return {
    name,
    namespace: text("spawn: namespace", options.namespace ?? namespace),
    getIfExists,
    maxConcurrency: integer("spawn: maxConcurrency", options.maxConcurrency ?? 1, 1, 1_000_000),
    maxPendingCalls:
      options.maxPendingCalls === undefined
        ? Number.POSITIVE_INFINITY
        : integer("spawn: maxPendingCalls", options.maxPendingCalls, 1, 1_000_000),
    onFull,
    maxTaskRetries: integer("spawn: maxTaskRetries", options.maxTaskRetries ?? 3, 0, 1000),
    restart: resolveRestartOptions(options),
    hangTimeoutMs: limited("hangTimeoutMs", 100, MAX_MS),
    stopStage: integer("spawn: stopStage", options.stopStage ?? 0, 0, 100),
    maxHeapMiB: limited("maxHeapMiB", 16, 1_048_576),
    startTimeoutMs: integer("spawn: startTimeoutMs", options.startTimeoutMs ?? 60_000, 1, MAX_MS),
  };
}

function resolveRestartOptions(options: SpawnOptions): RestartOptions {
  const maxRestarts = integer("spawn: maxRestarts", options.maxRestarts ?? 0, -1, 1_000_000);
  const { restartWindowMs: windowMs, backoffMs = [100, 30_000] } = options;
  if (!Array.isArray(backoffMs) || backoffMs.length !== 2)
    throw new TypeError(
      `spawn: backoffMs is ${JSON.stringify(backoffMs)}; allowed is [min, max] in ms`,
    );
  const minBackoffMs = integer("spawn: backoffMs[0]", backoffMs[0] as number, 0, MAX_MS);
  return {
    maxRestarts: maxRestarts === -1 ? Number.POSITIVE_INFINITY : maxRestarts,
    windowMs:
      windowMs === undefined
        ? Number.POSITIVE_INFINITY
        : integer("spawn: restartWindowMs", windowMs, 1, MAX_MS),
    minBackoffMs,
    maxBackoffMs: integer("spawn: backoffMs[1]", backoffMs[1] as number, minBackoffMs, MAX_MS),
  };
}

/** @throws TypeError or RangeError that names the option. */
export function resolveGroupOptions(options: GroupOptions): {
  readonly numWorkers: number;
  readonly route: Route | undefined;
  member(index: number): SpawnOptions;
} {
  const { numWorkers, route, ...rest } = options;
  return {
    numWorkers: integer("spawnGroup: numWorkers", numWorkers, 1, 4096),
    route,
    member: (index) =>
      rest.name === undefined ? rest : { ...rest, name: `${rest.name}-${index}` },
  };
}

/** @throws TypeError or RangeError that names the option. */
export function resolveCallOptions(options: CallOptions): CallOptions {
  refuseUnknown("with", options, ["signal", "timeoutMs", "killAfterMs", "window"]);
  const { signal, timeoutMs, killAfterMs, window } = options;
  if (signal !== undefined && !(signal instanceof AbortSignal))
    throw new TypeError(`with: signal is ${String(signal)}; give an AbortSignal`);
  if (timeoutMs !== undefined) checkDurationMs("with: timeoutMs", timeoutMs);
  if (killAfterMs !== undefined) checkDurationMs("with: killAfterMs", killAfterMs);
  if (window !== undefined) integer("with: window", window, 1, 65_536);
  return options;
}

/** @throws TypeError or RangeError that names the option. */
export function resolveRuntimeOptions(options: RuntimeOptions): {
  readonly taskThreads: number;
  readonly namespace: string;
} {
  refuseUnknown("createRuntime", options, ["logger", "taskThreads", "namespace", "traceFile"]);
  const preset = Math.min(4, Math.max(1, availableParallelism() - 1));
  return {
    taskThreads: integer("createRuntime: taskThreads", options.taskThreads ?? preset, 1, 256),
    namespace: text("createRuntime: namespace", options.namespace ?? "default"),
  };
}

/** @throws RangeError that names the option. */
export function checkDurationMs(option: string, value: number): number {
  if (typeof value === "number" && value >= 0 && value <= MAX_MS) return value;
  throw new RangeError(`${option} is ${String(value)}; allowed is 0 to ${MAX_MS} ms`);
}

function text(option: string, value: string): string {
  if (typeof value === "string" && value !== "") return value;
  throw new TypeError(`${option} is ${JSON.stringify(value)}; give a string that is not empty`);
}

function integer(option: string, value: number, min: number, max: number): number {
  if (Number.isInteger(value) && value >= min && value <= max) return value;
  throw new RangeError(
    `${option} is ${String(value)}; allowed is an integer from ${min} to ${max}`,
  );
}

function refuseUnknown(where: string, options: object, known: readonly string[]): void {
  for (const key of Object.keys(options))
    if (!known.includes(key))
      throw new TypeError(`${where}: unknown option ${key}; known are ${known.join(", ")}`);
}
