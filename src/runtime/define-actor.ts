/** What an actor is, apart from any running one: a plain class and a definition that a thread can find again. */
import type { SharedView, TypedArray } from "./buffers.js";
import type { ActorLogger } from "./logger.js";

/** What `create` is given beside the options. */
export interface ActorContext {
  readonly actorId: string;
  /** The name given at `spawn`. */
  readonly name: string | undefined;
  /** How often the actor was restarted: 0 in its first thread. */
  readonly restartCount: number;
  /**
   * The signal of the call that runs now: aborted when its caller cancels it, times out or dies. Outside of a call,
   * and in one that nobody can cancel, a signal that never aborts.
   */
  readonly signal: AbortSignal;
  /** Writes to the runtime's logger in the main thread. Never throws. */
  readonly logger: ActorLogger;
  /** A copy of a typed array in shared memory; as `Runtime.put`. */
  put<T extends TypedArray>(view: T): SharedView<T>;
  /** Runs a stateless task on the runtime's pool; as `Runtime.task`. */
  task<T = unknown>(
    module: string,
    exportName: string,
    args: readonly unknown[],
    options?: TaskOptions,
  ): Promise<T>;
}

export interface TaskOptions {
  /** Time the task may run, counted from its start and not from its place in the queue. Default: no limit. */
  readonly timeoutMs?: number;
}

/** How one method is called. */
export interface MethodOptions {
  /** The concurrency group it runs in, one of `groups`. Default: the one that `maxConcurrency` limits. */
  readonly group?: string;
  /**
   * It may run more than once: when the actor dies during it and is restarted, it runs again, at most
   * `maxTaskRetries` times. Streams, and calls with moved buffers, are never run again.
   */
  readonly idempotent?: boolean;
}

/** What `defineActor` takes. */
export interface ActorSpec<A extends object, O> {
  /** `import.meta.url` of the module that exports the definition. The actor's thread imports it again. */
  readonly module: string;
  /** Unique among the definitions of the module; also the stem of actor ids. */
  readonly name: string;
  /** Checks the options, in the thread that calls `spawn`; `create` gets what it returns. Any zod schema fits. */
  readonly options?: { parse(value: unknown): O };
  /**
   * Concurrency groups and how many calls of each may run at a time, beside `maxConcurrency` for all other methods.
   * A health check in a group of its own never waits for the work, but it cannot pass a blocked event loop.
   */
  readonly groups?: Readonly<Record<string, number>>;
  readonly methods?: { readonly [K in keyof A & string]?: MethodOptions };
  /** Makes the actor, in its own thread. Load heavy dependencies here: the module is imported by the caller too. */
  create(options: O, ctx: ActorContext): A | Promise<A>;
  /** Runs at `stop`, after the running calls have ended. */
  stop?(actor: A): void | Promise<void>;
}

/** A kind of actor, to be given to `runtime.spawn`. */
export interface ActorDefinition<A extends object, O> extends ActorSpec<A, O> {
  readonly [definitionMarker]: true;
}

const definitionMarker: unique symbol = Symbol.for("corral.actor-definition") as never;

/**
 * Makes a definition of a plain class. The module must export it.
 *
 * @throws TypeError when `module` is no URL, `name` is no identifier-like word or a method's group is not in `groups`.
 * @throws RangeError when a group's limit is no integer from 1 to 1 000 000.
 */
export function defineActor<A extends object, O>(spec: ActorSpec<A, O>): ActorDefinition<A, O> {
  if (!URL.canParse(spec.module))
    throw new TypeError(
      `defineActor: module is ${JSON.stringify(spec.module)}; give import.meta.url`,
    );
  if (!/^[A-Za-z][\w.-]*$/.test(spec.name))
    throw new TypeError(
      `defineActor: name is ${JSON.stringify(spec.name)}; allowed are a letter, then letters, digits, "_", "." and "-"`,
    );
  checkGroups(spec);
  return Object.freeze({ ...spec, [definitionMarker]: true as const });
}

function checkGroups<A extends object, O>({ groups = {}, methods = {}, name }: ActorSpec<A, O>) {
  for (const [group, limit] of Object.entries(groups))
    if (!Number.isInteger(limit) || limit < 1 || limit > 1_000_000)
      throw new RangeError(
        `defineActor ${name}: groups.${group} is ${String(limit)}; allowed is an integer from 1 to 1000000`,
      );
  const known = Object.keys(groups);
  for (const [method, { group } = {}] of Object.entries<MethodOptions | undefined>(methods))
    if (group !== undefined && !known.includes(group))
      throw new TypeError(
        `defineActor ${name}: methods.${method}.group is ${JSON.stringify(group)}; allowed: ${known.join(", ") || "none, as groups is empty"}`,
      );
}

/** True for what `defineActor` returned, in any copy of this package. */
export function isActorDefinition(value: unknown): value is ActorDefinition<object, unknown> {
  return typeof value === "object" && value !== null && definitionMarker in value;
}
