/**
 * Reads config files and merges them: mappings deeply, everything else by replacement, `null` unsets. Remembers for each
 * leaf the folder of the file that set it, because relative paths are resolved against it.
 */
import fs from "node:fs";
import path from "node:path";
import { parseDocument } from "yaml";
import { ConfigError } from "../errors.js";

export type Mapping = { [key: string]: unknown };

export interface MergedConfig {
  readonly value: Mapping;
  /** Dotted path of a leaf → folder of the file that set it. */
  readonly folders: ReadonlyMap<string, string>;
}

export interface ConfigSource {
  /** What errors call it. */
  readonly name: string;
  readonly folder: string;
  readonly value: Mapping;
}

export function isMapping(value: unknown): value is Mapping {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/**
 * @throws FILE_NOT_FOUND when the file cannot be read.
 * @throws CONFIG_SYNTAX when it is not YAML or not a mapping.
 */
export function readConfigFile(file: string): ConfigSource {
  let text: string;
  try {
    text = fs.readFileSync(file, "utf8");
  } catch (error) {
    const reason = error instanceof Error && "code" in error ? String(error.code) : String(error);
    throw new ConfigError("FILE_NOT_FOUND", "--config", `cannot read ${file} (${reason})`, {
      cause: error,
    });
  }
  const document = parseDocument(text, { merge: true });
  const [syntaxError] = document.errors;
  if (syntaxError !== undefined) {
    const [firstLine] = syntaxError.message.split("\n");
    throw new ConfigError("CONFIG_SYNTAX", "--config", `${file} is not YAML: ${firstLine}`);
  }
  const value = resolvedValue(document, file);
  if (!isMapping(value))
    throw new ConfigError("CONFIG_SYNTAX", "--config", `${file} must hold a mapping of keys`);
  return { name: file, folder: path.dirname(path.resolve(file)), value };
}

/** Resolves aliases, which the library refuses to do without end. */
function resolvedValue(document: ReturnType<typeof parseDocument>, file: string): unknown {
  try {
    return document.toJS() ?? {};
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new ConfigError("CONFIG_SYNTAX", "--config", `${file} cannot be read: ${reason}`, {
      cause,
    });
  }
}

/** The block under `env.nemo_gym`, for a config that was written for NeMo RL. */
function unwrapNemoGym(value: Mapping): Mapping {
  const { env, ...rest } = value;
  if (!isMapping(env) || !isMapping(env["nemo_gym"])) return value;
  const { nemo_gym: inner, ...others } = env;
  return { ...rest, ...inner, ...(Object.keys(others).length > 0 ? { env: others } : {}) };
}

export function mergeSources(sources: readonly ConfigSource[]): MergedConfig {
  const folders = new Map<string, string>();
  const value: Mapping = {};
  for (const source of sources)
    mergeInto(value, unwrapNemoGym(source.value), [], source.folder, folders);
  return { value, folders };
}

function mergeInto(
  target: Mapping,
  layer: Mapping,
  prefix: readonly string[],
  folder: string,
  folders: Map<string, string>,
): void {
  for (const [key, value] of Object.entries(layer)) {
    const keyPath = [...prefix, key];
    if (key === "__proto__")
      throw new ConfigError("UNKNOWN_KEY", keyPath.join("."), "is not a key");
    const isKwarg = prefix.at(-1)?.endsWith("_kwargs") === true;
    if (value === null && !isKwarg) {
      delete target[key];
    } else if (isMapping(value)) {
      const current = target[key];
      const nested: Mapping = isMapping(current) ? current : {};
      target[key] = nested;
      mergeInto(nested, value, keyPath, folder, folders);
    } else {
      target[key] = value;
      folders.set(keyPath.join("."), folder);
    }
  }
}
