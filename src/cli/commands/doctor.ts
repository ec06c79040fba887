/** `corral doctor`. Exit code 1 when something of the config does not work on this node. */
import Table from "cli-table3";
import { type DoctorCheck, examine, loadConfig } from "../../index.js";
import { printText, printWarning } from "../output.js";

export interface DoctorOptions {
  readonly config: readonly string[];
  readonly json?: boolean;
}

export async function doctorCommand({ config, json }: DoctorOptions): Promise<number> {
  const checks = await examine(loadConfig(config));
  if (json) await printText(`${JSON.stringify(checks)}\n`);
  else await print(checks);
  return checks.every(({ ok }) => ok) ? 0 : 1;
}

async function print(checks: readonly DoctorCheck[]): Promise<void> {
  for (const { name, warnings } of checks)
    for (const warning of warnings) printWarning(`${name}: ${warning}`);
  const table = new Table({
    head: ["", "check", "result"],
    style: { head: [], border: [] },
    colWidths: [6, null, 80],
    wordWrap: true,
  });
  table.push(...checks.map(({ name, ok, detail }) => [ok ? "ok" : "FAIL", name, detail]));
  await printText(`${table.toString()}\n`);
}
