import Table from "cli-table3";
import { loadConfig, type VerifyReport, verifyRollouts } from "../../index.js";
import { figure, printText } from "../output.js";

export interface VerifyOptions {
  readonly rollouts: string;
  readonly config?: readonly string[];
  readonly json?: boolean;
}

const SHOWN_FAULTS = 20;

export async function verifyCommand(options: VerifyOptions): Promise<number> {
  const config = options.config === undefined ? undefined : loadConfig(options.config);
  const report = await verifyRollouts(options.rollouts, config);
  await printText(options.json ? `${JSON.stringify(report)}\n` : describe(report));
  return report.faults.length === 0 ? 0 : 1;
}

function describe(report: VerifyReport): string {
  const share = report.calls === 0 ? null : (100 * report.reencodedDifferently) / report.calls;
  const replayed =
    report.maxReplayDifference === null
      ? "not replayed"
      : `${report.maxReplayDifference} (${report.replayedCalls} calls)`;
  const table = new Table({ head: ["check", "result"], style: { head: [], border: [] } });
  table.push(
    ["rows", `${report.rows} (${report.masked} masked, ${report.notRebuilt} not rebuilt)`],
    ["calls in trajectories", report.calls],
    ["generated tokens", report.generatedTokens],
    ["calls that re-encoding changes", `${figure(share, 1)} % (${report.reencodedDifferently})`],
    ["max |replayed − captured| log probability", replayed],
    ...Object.entries(report.notReplayed).map(([why, n]) => ["not replayed", `${n} calls: ${why}`]),
    ["faults", report.faults.length],
  );
  const lines = report.faults
    .slice(0, SHOWN_FAULTS)
    .map(({ line, rolloutId, problem }) => `line ${line}: ${rolloutId}: ${problem}`);
  const more = report.faults.length - lines.length;
  if (more > 0) lines.push(`… and ${more} more`);
  return [table.toString(), ...lines, ""].join("\n");
}
