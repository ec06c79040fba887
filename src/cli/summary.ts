/** The table at the end of `corral run`. */
import Table from "cli-table3";
import type { RunSummary } from "../index.js";
import { figure } from "./output.js";

export function describeSummary(summary: RunSummary): string {
  const table = new Table({ head: ["run", summary.runId], style: { head: [], border: [] } });
  const { meanReward, remaining } = summary;
  const left = remaining > 0 ? `, ${remaining} left` : "";
  table.push(
    ["rollouts", `${summary.rollouts} (${summary.completed} completed${left})`],
    ["masked", withCounts(summary.masked, summary.maskReasons)],
    ["failed", withCounts(summary.rollouts - summary.completed, summary.failures)],
    ["mean reward, unmasked", figure(meanReward.unmasked, 3)],
    ["mean reward, masked", figure(meanReward.masked, 3)],
    ["mean calls", figure(summary.meanCalls)],
    ["mean chains", figure(summary.meanChains)],
    ["delivered fraction", figure(summary.deliveredFraction, 4)],
    ["tokens captured", summary.tokensCaptured],
    ["calls per worker", counts(summary.callsPerWorker)],
    ["wall time", `${figure(summary.wallMs / 1000, 1)} s`],
    ["rollouts per minute", figure(summary.rolloutsPerMinute, 1)],
  );
  if (summary.notRebuilt > 0) table.push(["not rebuilt", summary.notRebuilt]);
  const note = summary.evaluationOnly ? "no token ids: evaluation only\n" : "";
  return `${table.toString()}\n${note}`;
}

function withCounts(total: number, parts: Readonly<Record<string, number>>): string {
  const shown = counts(parts);
  return shown === "" ? String(total) : `${total} (${shown})`;
}

function counts(parts: Readonly<Record<string, number>>): string {
  return Object.entries(parts)
    .map(([name, count]) => `${name} ${count}`)
    .join(", ");
}
