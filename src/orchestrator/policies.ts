/** Loads the weights of each configured embedded engine once; all its workers share the buffer. */
import {
  loadCheckpoint,
  type PolicySnapshot,
  untrainedSnapshot,
} from "../embedded-policy/index.js";
import type { CorralConfig, ModelConfig } from "./config/schema.js";
import { ConfigError } from "./errors.js";

type EmbeddedConfig = Extract<ModelConfig["engine"], { kind: "embedded" }>;

/** @throws FILE_NOT_FOUND or INVALID_VALUE naming the checkpoint. */
export async function loadPolicy(name: string, engine: EmbeddedConfig): Promise<PolicySnapshot> {
  const { checkpoint } = engine;
  if (checkpoint === undefined) return untrainedSnapshot();
  const field = `responses_api_models.${name}.engine.checkpoint`;
  try {
    return await loadCheckpoint(checkpoint);
  } catch (cause) {
    const missing = cause instanceof Error && "code" in cause && cause.code === "ENOENT";
    const reason = cause instanceof Error ? cause.message : String(cause);
    if (missing)
      throw new ConfigError("FILE_NOT_FOUND", field, `cannot read ${checkpoint}`, { cause });
    throw new ConfigError("INVALID_VALUE", field, `${checkpoint} is no checkpoint: ${reason}`, {
      cause,
    });
  }
}

/** Snapshots of all embedded models by digest. */
export async function loadPolicies(config: CorralConfig): Promise<Map<string, PolicySnapshot>> {
  const snapshots = new Map<string, PolicySnapshot>();
  for (const [name, { engine }] of Object.entries(config.responses_api_models)) {
    if (engine.kind !== "embedded") continue;
    const snapshot = await loadPolicy(name, engine);
    snapshots.set(snapshot.digest, snapshot);
  }
  return snapshots;
}
