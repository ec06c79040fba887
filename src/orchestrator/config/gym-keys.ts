/** Keys of a NeMo Gym config that Corral spells otherwise, each with the Corral spelling. */
import { isMapping } from "./merge.js";

const TOP_LEVEL: Readonly<Record<string, string>> = {
  policy_base_url: "responses_api_models.<name>.engine",
  policy_api_key: "responses_api_models.<name>.engine",
  policy_model_name: "the name of a model under responses_api_models",
  config_paths: "several --config options",
  responses_create_params: "responses_api_models.<name>.sampling_overrides",
  num_samples_in_parallel: "responses_api_agents.<name>.concurrency",
  num_repeats: "rollout.group_size",
  input_jsonl_fpath: "the option --tasks",
  output_jsonl_fpath: "the option --out",
  agent_name: "agent_ref.name on each task",
  resources_servers: "verifier and verifier_params on each task",
  policy: "responses_api_models.<name>",
  env: "the keys of env.nemo_gym at the top level",
};

const MODEL: Readonly<Record<string, string>> = {
  entrypoint: "engine.kind",
  base_url: "engine",
  api_key: "engine",
  model: "the name of the model, its key under responses_api_models",
  host: "no setting: servers listen on 127.0.0.1",
};

const AGENT: Readonly<Record<string, string>> = {
  entrypoint: "kind",
  model_server: "model",
  resources_server: "verifier and verifier_params on each task",
  datasets: "the option --tasks",
  timeout: "timeout_s",
  claude_code_version: "binary",
};

/** The Corral spelling of a key of Gym; undefined when Gym has no such key either. */
export function corralSpelling(
  path: readonly string[],
  key: string,
  value: unknown,
): string | undefined {
  if (path.length === 0) return nestedServer(key, value) ?? spelling(TOP_LEVEL, key);
  if (path.length === 2 && path[0] === "responses_api_models") return spelling(MODEL, key);
  if (path.length === 2 && path[0] === "responses_api_agents") return spelling(AGENT, key);
  return undefined;
}

/** A key such as `constructor` is no entry of the table. */
function spelling(table: Readonly<Record<string, string>>, key: string): string | undefined {
  return Object.hasOwn(table, key) ? table[key] : undefined;
}

/** Gym nests a server under the name of its instance: `policy_model: { responses_api_models: { vllm_model: … } }`. */
function nestedServer(key: string, value: unknown): string | undefined {
  if (!isMapping(value)) return undefined;
  for (const kind of ["responses_api_models", "responses_api_agents"])
    if (isMapping(value[kind])) return `${kind}.${key} (no server type between)`;
  return "resources_servers" in value ? TOP_LEVEL["resources_servers"] : undefined;
}
