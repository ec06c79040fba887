/**
 * Imports a module in an actor's thread. In development a module may be TypeScript: Node 20 cannot import it, and a
 * `--import tsx` flag does not reach a worker's entry, so tsx is registered here, in the thread.
 */
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath, pathToFileURL } from "node:url";

const JS = /\.(m|c)?js$/;
const TS = /\.(m|c)?ts$/;

/**
 * Imports `url`. When it names a `.js` file that is not there and the `.ts` beside it is, imports that.
 *
 * @throws an error that names tsx when the module is TypeScript and tsx is not installed.
 */
export async function loadModule(url: string): Promise<Record<string, unknown>> {
  const source = sourceOf(url);
  // Node 22.18 and later take the types off themselves.
  const { typescript = false } = process.features as { readonly typescript?: unknown };
  if (TS.test(source) && typescript === false) await registerTsx(source);
  return (await import(source)) as Record<string, unknown>;
}

/** The file to import for `url`. */
export function sourceOf(url: string): string {
  if (!url.startsWith("file:") || !JS.test(url) || existsSync(fileURLToPath(url))) return url;
  const typescript = url.replace(JS, ".$1ts");
  return existsSync(fileURLToPath(typescript)) ? typescript : url;
}

async function registerTsx(source: string): Promise<void> {
  let path: string;
  try {
    // The user's own installation, where the actor module lies. What `require` finds is the CommonJS build, which
    // registers a hook that is not there; the other build lies beside it.
    path = createRequire(source)
      .resolve("tsx/esm/api")
      .replace(/\.cjs$/, ".mjs");
  } catch (cause) {
    throw new Error(
      `${source} is TypeScript: install tsx as a development dependency, or build it and give the .js file`,
      { cause },
    );
  }
  const tsx = (await import(pathToFileURL(path).href)) as { register(): unknown };
  tsx.register();
}
