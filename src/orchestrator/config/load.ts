/** From config files, or one object, to a checked `CorralConfig`: merge → resolve → validate → make paths absolute. */
import path from "node:path";
import { stringify } from "yaml";
import { interpolate } from "./interpolate.js";
import { isMapping, type Mapping, mergeSources, readConfigFile } from "./merge.js";
import { type CorralConfig, KWARGS_KEYS } from "./schema.js";
import { validateConfig } from "./validate.js";

/** Config files that merge in order, or one object. */
export type ConfigInput = string | readonly string[] | { readonly [key: string]: unknown };

export interface LoadConfigOptions {
  /** Default: `process.env`. */
  readonly environment?: NodeJS.ProcessEnv;
  /** Folder that relative paths of an object are resolved against. Default: the working directory. */
  readonly folder?: string;
}

/**
 * Merges, resolves and checks a config.
 * @throws ConfigError whose message names the key, the value and what is allowed.
 */
export function loadConfig(input: ConfigInput, options: LoadConfigOptions = {}): CorralConfig {
  return load(input, options).config;
}

/** The checked config as YAML, secrets replaced by `***`: kwargs that came from the environment or are named like one. */
export function describeConfig(input: ConfigInput, options: LoadConfigOptions = {}): string {
  const { config, fromEnvironment } = load(input, options);
  const shown: Mapping = structuredClone(config);
  const capture = shown["token_id_capture"];
  for (const key of KWARGS_KEYS) {
    if (!isMapping(capture)) break;
    capture[key] = redact(capture[key], `token_id_capture.${key}`, fromEnvironment);
  }
  shown["responses_api_models"] = redactKeys(config.responses_api_models);
  return stringify(shown, { lineWidth: 0 });
}

const SECRET_NAME = /key|token|secret|password/i;

function redact(node: unknown, at: string, secrets: ReadonlyMap<string, string>): unknown {
  if (secrets.has(at)) return "***";
  if (Array.isArray(node))
    return node.map((child, index) => redact(child, `${at}.${index}`, secrets));
  if (!isMapping(node)) return node;
  return Object.fromEntries(
    Object.entries(node).map(([key, child]) => [
      key,
      SECRET_NAME.test(key) ? "***" : redact(child, `${at}.${key}`, secrets),
    ]),
  );
}

/** Engines with their `api_key` hidden, wherever it came from. */
function redactKeys(models: CorralConfig["responses_api_models"]): Mapping {
  return Object.fromEntries(
    Object.entries(models).map(([name, model]) => [
      name,
      "api_key" in model.engine && model.engine.api_key !== undefined
        ? { ...model, engine: { ...model.engine, api_key: "***" } }
        : model,
    ]),
  );
}

interface Loaded {
  readonly config: CorralConfig;
  readonly fromEnvironment: ReadonlyMap<string, string>;
}

function load(input: ConfigInput, options: LoadConfigOptions): Loaded {
  const merged = mergeSources(readSources(input, options));
  const resolved = interpolate(merged.value, options.environment ?? process.env);
  const config = validateConfig(resolved);
  const folderOf = (at: string) => merged.folders.get(at) ?? options.folder ?? process.cwd();
  return { config: withAbsolutePaths(config, folderOf), fromEnvironment: resolved.fromEnvironment };
}

function readSources(input: ConfigInput, options: LoadConfigOptions) {
  if (typeof input === "string") return [readConfigFile(input)];
  if (isFileList(input)) return input.map(readConfigFile);
  return [
    {
      name: "config",
      folder: options.folder ?? process.cwd(),
      value: structuredClone({ ...input }),
    },
  ];
}

function isFileList(input: ConfigInput): input is readonly string[] {
  return Array.isArray(input);
}

const ENGINE_PATHS = ["checkpoint", "model_dir", "chat_template"] as const;

/** Modules only when they are paths: a bare name is a package. */
function withAbsolutePaths(config: CorralConfig, folderOf: (at: string) => string): CorralConfig {
  const absolute = (at: string, value: string) => path.resolve(folderOf(at), value);
  const module = (at: string, value: string) =>
    /^\.{1,2}\//.test(value) ? absolute(at, value) : value;

  const capture = config.token_id_capture;
  if (capture.dir !== undefined) capture.dir = absolute("token_id_capture.dir", capture.dir);
  for (const key of ["sink", "source", "lineage"] as const) {
    const value = capture[key];
    if (value !== undefined) capture[key] = module(`token_id_capture.${key}`, value);
  }
  for (const [name, { engine }] of Object.entries(config.responses_api_models)) {
    const paths: Mapping = engine;
    for (const key of ENGINE_PATHS) {
      const value = paths[key];
      const at = `responses_api_models.${name}.engine.${key}`;
      if (typeof value === "string") paths[key] = absolute(at, value);
    }
  }
  for (const [name, agent] of Object.entries(config.responses_api_agents)) {
    const at = `responses_api_agents.${name}`;
    if (agent.kind === "function") agent.module = module(`${at}.module`, agent.module);
    else if (agent.kind === "command") {
      const [program = ""] = agent.command;
      if (program.includes("/")) agent.command[0] = absolute(`${at}.command.0`, program);
    } else if (agent.binary?.includes("/")) agent.binary = absolute(`${at}.binary`, agent.binary);
  }
  return config;
}
