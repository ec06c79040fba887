import { ConfigError, rebuildEntries } from "../../index.js";
import { printText } from "../output.js";

export interface RebuildOptions {
  readonly entries: string;
  readonly mode: string;
}

export async function rebuildCommand({ entries, mode }: RebuildOptions): Promise<number> {
  if (mode === "all")
    throw new ConfigError(
      "NOT_AVAILABLE",
      "--mode",
      '"all" is not available in this version; allowed: main',
    );
  if (mode !== "main")
    throw new ConfigError("INVALID_VALUE", "--mode", `"${mode}" is not valid; allowed: main`);
  for await (const build of rebuildEntries(entries)) await printText(`${JSON.stringify(build)}\n`);
  return 0;
}
