/** Conformance of the adapters that a config names. */
import path from "node:path";
import { buildUserClass, type UserClassRole } from "../actors/index.js";
import {
  runConformance,
  type TokenLineage,
  type TokenSink,
  type TokenSource,
} from "../capture/index.js";
import type { CorralConfig } from "./config/schema.js";
import { ConfigError } from "./errors.js";

/** The keys of `token_id_capture` that name adapters. A relative module is resolved against the working directory. */
export type NamedAdapters = Partial<
  Pick<
    CorralConfig["token_id_capture"],
    "sink" | "sink_kwargs" | "source" | "source_kwargs" | "lineage" | "lineage_kwargs"
  >
>;

/**
 * @returns the names of the checks that passed.
 * @throws CONFORMANCE_FAILED naming the check; ConfigError when sink or source is not named or cannot be built.
 */
export async function checkConformance(adapters: NamedAdapters): Promise<string[]> {
  const maker = <T>(role: UserClassRole) => {
    const named = adapters[role];
    if (named === undefined) return undefined;
    const specifier = /^\.{1,2}\//.test(named) ? path.resolve(named) : named;
    const kwargs = adapters[`${role}_kwargs`] ?? {};
    return () => buildUserClass<T>({ specifier, kwargs }, role, []);
  };
  const makeSink = maker<TokenSink>("sink");
  const makeSource = maker<TokenSource>("source");
  const makeLineage = maker<TokenLineage & { close?(): Promise<void> }>("lineage");
  if (makeSink === undefined) throw missing("--sink");
  if (makeSource === undefined) throw missing("--source");
  await buildable(makeSink, makeSource, makeLineage);
  return runConformance({ makeSink, makeSource, ...(makeLineage && { makeLineage }) });
}

/** A class that cannot be built is the user's mistake in the config, not a broken contract. */
async function buildable(
  ...makers: readonly ((() => Promise<{ close?(): Promise<void> }>) | undefined)[]
): Promise<void> {
  for (const make of makers) {
    try {
      await (await make?.())?.close?.();
    } catch (cause) {
      const message = cause instanceof Error ? cause.message : String(cause);
      const [, field = "token_id_capture", problem = message] =
        /^(token_id_capture\.\w+): (.*)/s.exec(message) ?? [];
      throw new ConfigError("START_FAILED", field, problem, { cause });
    }
  }
}

function missing(option: string): ConfigError {
  return new ConfigError(
    "INVALID_VALUE",
    option,
    'is missing; allowed: "module:Export", or --config',
  );
}
