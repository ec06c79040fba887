import { type ExportFormat, exportRollouts } from "../../index.js";
import { printText, printWarning } from "../output.js";

export interface ExportOptions {
  readonly rollouts?: string;
  readonly dir?: string;
  readonly format: string;
  readonly out: string;
  readonly chains: string;
}

/** `corral export`. Prints what was written as JSON. Exit code 1 when nothing was trainable. */
export async function exportCommand(options: ExportOptions): Promise<number> {
  const { format: _format, chains: _chains, ...where } = options;
  const { out } = where;
  const format = options.format as ExportFormat;
  const chains = options.chains as "main" | "all";
  const report = await exportRollouts({ ...where, format, chains });
  await printText(`${JSON.stringify({ format, out, ...report })}\n`);
  if (report.skipped > 0) printWarning(`${report.skipped} rows are not trainable and left out`);
  return report.exported > 0 ? 0 : 1;
}
