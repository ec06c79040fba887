import { ConfigError } from "./errors.js";

/** Why a start failed that the config's author can mend. */
const STARTS_TO_MEND = new Set([
  "NETWORK_FILE_SYSTEM",
  "HARNESS_NOT_FOUND",
  "HARNESS_MODULE_INVALID",
  "ISOLATION_FAILED",
  "MODEL_DIRECTORY_INVALID",
]);

/** True for a failure that the config's author, or who runs the engine, can mend. */
function isToMend(error: Error): error is Error & { code: string } {
  const code = "code" in error ? String(error.code) : "";
  return STARTS_TO_MEND.has(code) || code.startsWith("ENGINE_");
}

/** Names the key whose actor does not start; any other failure passes unchanged. */
export async function startingAs<T>(field: string, spawn: () => Promise<T>): Promise<T> {
  try {
    return await spawn();
  } catch (error) {
    for (let cause: unknown = error; cause instanceof Error; cause = cause.cause) {
      // A sink or lineage that a worker could not build already names its key.
      const named = /^(token_id_capture\.\w+): (.*)/s.exec(cause.message);
      if (named !== null)
        throw new ConfigError("START_FAILED", named[1] ?? field, named[2] ?? "", { cause: error });
      if (!isToMend(cause)) continue;
      const inner = cause.cause instanceof Error ? cause.cause.message : "";
      const why = cause.message.includes(inner) ? "" : `: ${inner}`;
      throw new ConfigError("START_FAILED", field, `${cause.message}${why}`, { cause: error });
    }
    throw error;
  }
}
