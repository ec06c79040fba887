import fs from "node:fs";
import path from "node:path";
import { STORE_FILE_NAME } from "../capture/index.js";
import { ConfigError } from "./errors.js";

/**
 * `dir` itself when it holds a store, else the folders in it that do.
 * @throws RUN_DIRECTORY when there is none.
 */
export function runDirectories(dir: string): string[] {
  const hasStore = (folder: string) => fs.existsSync(path.join(folder, STORE_FILE_NAME));
  if (hasStore(dir)) return [dir];
  const isFolder = fs.statSync(dir, { throwIfNoEntry: false })?.isDirectory() === true;
  const folders = isFolder ? fs.readdirSync(dir).map((name) => path.join(dir, name)) : [];
  const found = folders.filter(hasStore).sort();
  if (found.length > 0) return found;
  throw new ConfigError(
    "RUN_DIRECTORY",
    "--dir",
    `${dir} holds no ${STORE_FILE_NAME}; allowed: a run directory, or the folder of them`,
  );
}
