/** Finds the modules that users name: verifiers, harness functions, sinks. */
import { createRequire } from "node:module";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { ConfigError } from "./errors.js";

/** An export of a user's module. */
export interface ModuleExport {
  /** File URL. */
  readonly module: string;
  readonly exportName: string;
}

/**
 * Resolves `module#export`: a path against the folder, a bare name as a package seen from there.
 * @throws MODULE_INVALID when the text has another form or the module is not found.
 */
export function resolveModuleExport(text: string, folder: string, field: string): ModuleExport {
  const hash = text.lastIndexOf("#");
  if (hash < 1 || hash === text.length - 1)
    throw new ConfigError(
      "MODULE_INVALID",
      field,
      `"${text}" is not valid; allowed: "module#export"`,
    );
  const specifier = text.slice(0, hash);
  const exportName = text.slice(hash + 1);
  if (specifier.startsWith("file:")) return { module: specifier, exportName };
  try {
    return { module: resolveFrom(folder, specifier), exportName };
  } catch (cause) {
    throw new ConfigError("MODULE_INVALID", field, `cannot find the module ${specifier}`, {
      cause,
    });
  }
}

/** A package that exports only ES modules is unknown to `require.resolve`; it is then looked up from here. */
function resolveFrom(folder: string, specifier: string): string {
  const require = createRequire(path.join(folder, "package.json"));
  try {
    return pathToFileURL(require.resolve(specifier)).href;
  } catch (error) {
    if (/^[./]/.test(specifier)) throw error;
    return import.meta.resolve(specifier);
  }
}

/**
 * Loads the module once in this thread to see that it loads and exports a function of that name.
 * @throws MODULE_INVALID naming the module, or the export and those that there are.
 */
export async function checkFunctionExport(
  { module, exportName }: ModuleExport,
  field: string,
): Promise<void> {
  let loaded: Record<string, unknown>;
  try {
    loaded = (await import(module)) as Record<string, unknown>;
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new ConfigError("MODULE_INVALID", field, `${module} does not load: ${reason}`, { cause });
  }
  if (typeof loaded[exportName] === "function") return;
  const functions = Object.keys(loaded).filter((name) => typeof loaded[name] === "function");
  throw new ConfigError(
    "MODULE_INVALID",
    field,
    `${module} exports no function "${exportName}"; allowed: ${functions.join(", ") || "none"}`,
  );
}
