/** Options are checked once, here; a bad value names the option, the value and what is allowed. */
import { availableParallelism } from "node:os";
import type { ActorLogger } from "./logger.js";

export interface RuntimeOptions {
  /** Gets the actors' records and the runtime's own. Default: pino to stderr, level `info`. */
  readonly logger?: ActorLogger;
  /** Threads for stateless tasks, 1 to 256, started when needed. Default: cores − 1, from 1 to 4. */
  readonly taskThreads?: number;
}

export interface SpawnOptions {
  /** Unique among the live actors of the runtime. */
  readonly name?: string;
  /** Calls that may run in the actor at the same time, from all callers together; 1 to 1 000 000. Default 1. */
  readonly maxConcurrency?: number;
  /** When `shutdown` stops the actor: stage 0 first, the highest last; 0 to 100. Default 0. */
  readonly stopStage?: number;
  /** Limit of the thread's old-generation heap in MiB, 16 to 1 048 576. ArrayBuffers do not count. Default: as main. */
  readonly maxHeapMiB?: number;
  /** Time from `spawn` until `create` must have ended, in ms, from 1. Default 60 000. */
  readonly startTimeoutMs?: number;
}

export interface ResolvedSpawnOptions {
  readonly name: string | undefined;
  readonly maxConcurrency: number;
  readonly stopStage: number;
  readonly maxHeapMiB: number | undefined;
  readonly startTimeoutMs: number;
}

const SPAWN_KEYS = ["name", "maxConcurrency", "stopStage", "maxHeapMiB", "startTimeoutMs"];

/** @throws TypeError or RangeError that names the option. */
export function resolveSpawnOptions(options: SpawnOptions): ResolvedSpawnOptions {
  refuseUnknown("spawn", options, SPAWN_KEYS);
  const { name, maxHeapMiB } = options;
  if (name !== undefined && (typeof name !== "string" || name === ""))
    throw new TypeError(`spawn: name is ${JSON.stringify(name)}; give a string that is not empty`);
  return {
    name,
    maxConcurrency: integer("spawn: maxConcurrency", options.maxConcurrency ?? 1, 1, 1_000_000),
    stopStage: integer("spawn: stopStage", options.stopStage ?? 0, 0, 100),
    maxHeapMiB:
      maxHeapMiB === undefined
        ? undefined
        : integer("spawn: maxHeapMiB", maxHeapMiB, 16, 1_048_576),
    startTimeoutMs: integer(
      "spawn: startTimeoutMs",
      options.startTimeoutMs ?? 60_000,
      1,
      2 ** 31 - 1,
    ),
  };
}

/** @throws TypeError or RangeError that names the option. */
export function resolveTaskThreads(options: RuntimeOptions): number {
  refuseUnknown("createRuntime", options, ["logger", "taskThreads"]);
  const preset = Math.min(4, Math.max(1, availableParallelism() - 1));
  return integer("createRuntime: taskThreads", options.taskThreads ?? preset, 1, 256);
}

/** @throws RangeError that names the option. */
export function checkDurationMs(option: string, value: number): number {
  if (typeof value === "number" && value >= 0 && value <= 2 ** 31 - 1) return value;
  throw new RangeError(`${option} is ${String(value)}; allowed is 0 to ${2 ** 31 - 1} ms`);
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
