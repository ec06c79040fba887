import fs from "node:fs";
import { ConfigError, rebuildEntriesFile } from "../../index.js";
import { printError, printText } from "../output.js";

export interface RebuildOptions {
  readonly entries: string;
  readonly mode: string;
  readonly form: string;
}

/** A build without a chain is an answer; a record that we refuse to read is work not done. */
const REFUSED_RECORD = /^(SCHEMA_TOO_NEW|RECORD_INVALID|RECORD_CONFLICT|MULTIPLE_TOKEN_CARRIERS):/;

export async function rebuildCommand({ entries, mode, form }: RebuildOptions): Promise<number> {
  if (mode !== "main" && mode !== "all")
    throw new ConfigError("INVALID_VALUE", "--mode", `"${mode}" is not valid; allowed: main, all`);
  if (form !== "full" && form !== "delta")
    throw new ConfigError(
      "INVALID_VALUE",
      "--form",
      `"${form}" is not valid; allowed: full, delta`,
    );
  checkReadable(entries);
  let refused = 0;
  for await (const build of rebuildEntriesFile(entries, { delivery: mode, outputForm: form })) {
    if (!(await printText(`${JSON.stringify(build)}\n`))) break;
    if (build.error === undefined || !REFUSED_RECORD.test(build.error)) continue;
    refused++;
    printError(`--entries: ${build.error}`);
  }
  return refused === 0 ? 0 : 1;
}

function checkReadable(file: string): void {
  try {
    fs.accessSync(file, fs.constants.R_OK);
  } catch (cause) {
    const reason = cause instanceof Error && "code" in cause ? String(cause.code) : String(cause);
    throw new ConfigError("FILE_NOT_FOUND", "--entries", `cannot read ${file} (${reason})`, {
      cause,
    });
  }
}
