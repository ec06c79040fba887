/**
 * A results file, or what runs keep in their folders, as another trainer's data.
 *
 * X1. Only rows that are proven trainable are exported; the others are counted.
 * X2. The file appears under its name when it is whole, or not at all.
 */
import fs from "node:fs/promises";
import { isTrainable, trajectoryRows } from "../../capture/index.js";
import { isMapping } from "../config/merge.js";
import { ConfigError } from "../errors.js";
import { readJsonLines } from "../jsonl.js";
import { LINE_FORMATS, type LineFormat } from "./formats.js";
import { keptRows } from "./kept-rows.js";
import { ParquetRows } from "./parquet-rows.js";
import { type TrainingSample, trainingSample } from "./training-sample.js";

export const EXPORT_FORMATS = [...(Object.keys(LINE_FORMATS) as LineFormat[]), "parquet"] as const;
export type ExportFormat = (typeof EXPORT_FORMATS)[number];

export interface ExportRequest {
  /** Path of a results file of `corral run`. This or `dir`. */
  readonly rollouts?: string;
  /**
   * A run directory, or a folder of them: what is finished there and has its records still, as after a run with
   * `rebuild_response: false`. What a run has delivered and retired is in its results file.
   */
  readonly dir?: string;
  readonly format: ExportFormat;
  /** Path of the new file. Overwrites. */
  readonly out: string;
  /** `main`: the chain that a row shows. `all`: each chain that the row holds. @default "main" */
  readonly chains?: "main" | "all";
}

export interface ExportReport {
  readonly rows: number;
  /** Sequences written. */
  readonly exported: number;
  /** Rows, or chains of rows, that are not trainable. */
  readonly skipped: number;
  readonly sampledTokens: number;
}

interface SampleFile {
  add(sample: TrainingSample): Promise<void>;
  close(): Promise<void>;
}

/**
 * @throws FILE_NOT_FOUND; RUN_DIRECTORY when there is no store; INVALID_VALUE for an unknown format, an `out` that cannot
 *   be written, or not exactly one of `rollouts` and `dir`.
 */
export async function exportRollouts(request: ExportRequest): Promise<ExportReport> {
  const { format, out, chains = "main" } = request;
  if (!EXPORT_FORMATS.includes(format)) throw invalid("--format", format, EXPORT_FORMATS);
  if (chains !== "main" && chains !== "all") throw invalid("--chains", chains, ["main", "all"]);
  const draft = `${out}.${process.pid}.part`;
  const report = { rows: 0, exported: 0, skipped: 0, sampledTokens: 0 };
  try {
    const file = await openFile(draft, format);
    try {
      for await (const value of rowsIn(request, chains)) {
        report.rows++;
        for (const row of rowsOf(value, chains)) {
          if (!isTrainable(row)) {
            report.skipped++; // X1
            continue;
          }
          const sample = trainingSample(row);
          await file.add(sample);
          report.exported++;
          report.sampledTokens += sample.responseMask.reduce((sum, one) => sum + one, 0);
        }
      }
    } finally {
      await file.close();
    }
    await fs.rename(draft, out); // X2
  } catch (error) {
    await fs.rm(draft, { force: true });
    throw error;
  }
  return report;
}

async function* rowsIn(
  { rollouts, dir }: ExportRequest,
  chains: "main" | "all",
): AsyncGenerator<unknown> {
  if ((rollouts === undefined) === (dir === undefined))
    throw new ConfigError(
      "INVALID_VALUE",
      "--rollouts, --dir",
      "exactly one must be given: a results file, or the folder of a run",
    );
  if (dir !== undefined) yield* keptRows(dir, chains);
  else for await (const { value } of readJsonLines(rollouts ?? "", "--rollouts")) yield value;
}

function rowsOf(value: unknown, chains: "main" | "all"): Record<string, unknown>[] {
  if (!isMapping(value)) return [{}];
  if (chains === "all") return trajectoryRows(value);
  const { _ng_trajectories: _, ...shown } = value;
  return [shown];
}

async function openFile(path: string, format: ExportFormat): Promise<SampleFile> {
  try {
    if (format !== "parquet") return await openLines(path, LINE_FORMATS[format]);
    await fs.writeFile(path, "");
    return new ParquetRows(path);
  } catch (cause) {
    const reason = cause instanceof Error && "code" in cause ? String(cause.code) : String(cause);
    throw new ConfigError("INVALID_VALUE", "--out", `cannot write ${path} (${reason})`, { cause });
  }
}

async function openLines(
  path: string,
  lineOf: (sample: TrainingSample) => unknown,
): Promise<SampleFile> {
  const file = await fs.open(path, "w", 0o600);
  return {
    add: async (sample) => {
      await file.appendFile(`${JSON.stringify(lineOf(sample))}\n`);
    },
    close: () => file.close(),
  };
}

function invalid(option: string, value: string, allowed: readonly string[]): ConfigError {
  return new ConfigError(
    "INVALID_VALUE",
    option,
    `${JSON.stringify(value)} is not valid; allowed: ${allowed.join(", ")}`,
  );
}
