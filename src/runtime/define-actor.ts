/** What an actor is, apart from any running one: a plain class and a definition that a thread can find again. */
import type { ActorLogger } from "./logger.js";

/** What `create` is given beside the options. */
export interface ActorContext {
  readonly actorId: string;
  /** The name given at `spawn`. */
  readonly name: string | undefined;
  /** Writes to the runtime's logger in the main thread. Never throws. */
  readonly logger: ActorLogger;
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

/** What `defineActor` takes. */
export interface ActorSpec<A extends object, O> {
  /** `import.meta.url` of the module that exports the definition. The actor's thread imports it again. */
  readonly module: string;
  /** Unique among the definitions of the module; also the stem of actor ids. */
  readonly name: string;
  /** Checks the options, in the thread that calls `spawn`; `create` gets what it returns. Any zod schema fits. */
  readonly options?: { parse(value: unknown): O };
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
 * @throws TypeError when `module` is no URL or `name` is no identifier-like word.
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
  return Object.freeze({ ...spec, [definitionMarker]: true as const });
}

/** True for what `defineActor` returned, in any copy of this package. */
export function isActorDefinition(value: unknown): value is ActorDefinition<object, unknown> {
  return typeof value === "object" && value !== null && definitionMarker in value;
}
