/** `corral prune`: makes room in stores of runs that are over. */
import { ConfigError, loadConfig, pruneStores } from "../../index.js";
import { printText } from "../output.js";

export interface PruneOptions {
  readonly config?: readonly string[];
  readonly dir?: string;
  readonly masked?: boolean;
  readonly olderThan: string;
  readonly json?: boolean;
}

const UNITS_MS: Readonly<Record<string, number>> = {
  s: 1000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};

export async function pruneCommand(options: PruneOptions): Promise<number> {
  const dir = options.dir ?? (options.config && loadConfig(options.config).token_id_capture.dir);
  if (dir === undefined)
    throw new ConfigError(
      "INVALID_VALUE",
      "--dir",
      "is missing; allowed: a folder, or --config with token_id_capture.dir",
    );
  const olderThanMs = durationMs(options.olderThan);
  const runs = await pruneStores({ dir, masked: options.masked ?? false, olderThanMs });
  const lines = runs.map(({ dir: run, inUse, rollouts, bytes, tombstones }) =>
    inUse
      ? `${run}: in use, left alone\n`
      : `${run}: ${rollouts} masked rollouts (${(bytes / 1e6).toFixed(1)} MB), ${tombstones} tombstones\n`,
  );
  await printText(options.json ? `${JSON.stringify({ runs })}\n` : lines.join(""));
  return 0;
}

function durationMs(text: string): number {
  const [, count, unit = ""] = /^(\d+)([smhd])$/.exec(text) ?? [];
  const ms = Number(count) * (UNITS_MS[unit] ?? Number.NaN);
  if (Number.isFinite(ms)) return ms;
  throw new ConfigError(
    "INVALID_VALUE",
    "--older-than",
    `"${text}" is not valid; allowed: e.g. 90s, 30m, 12h, 7d`,
  );
}
