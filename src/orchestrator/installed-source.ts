/**
 * A source that a program installs instead of naming it in the config.
 *
 * There is no counterpart for sinks: every model-server worker is a thread of its own and builds its own sink from the
 * config; an object of this thread could not be inherited there.
 */
import type { TokenSource } from "../capture/index.js";
import { ConfigError } from "./errors.js";

let installed: TokenSource | undefined;

/**
 * Reads and retires records through this source in every run that this thread launches afterwards, whatever the config
 * says. Call it in the thread that calls `launch` or `runRollouts`, before it. Undefined removes it. We never close it.
 *
 * @throws ConfigError INVALID_VALUE when a method is missing.
 */
export function installTokenSource(source: TokenSource | undefined): void {
  const methods = ["freeze", "drop", "close"] as const;
  const missing = source && methods.filter((method) => typeof source[method] !== "function");
  if (missing !== undefined && missing.length > 0)
    throw new ConfigError(
      "INVALID_VALUE",
      "installTokenSource: source",
      `has no method ${missing.join(", ")}; allowed: a TokenSource`,
    );
  installed = source;
}

export function installedTokenSource(): TokenSource | undefined {
  return installed;
}
