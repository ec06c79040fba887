/** `corral inspect`: what stores hold, or the calls of one rollout. */
import { ConfigError, type InspectedStore, inspectRollout, inspectStores } from "../../index.js";
import { printText } from "../output.js";
import { describeTree } from "../rollout-text.js";
import type { RolloutOptions } from "./explain.js";

export async function inspectCommand(
  rollout: string | undefined,
  options: RolloutOptions,
): Promise<number> {
  return rollout === undefined ? inspectDirectory(options) : inspectTree(rollout, options);
}

/** The calls of a rollout as a tree. */
async function inspectTree(rollout: string, options: RolloutOptions): Promise<number> {
  const tree = await inspectRollout(rollout, options);
  const { calls, build } = tree;
  const json = { rollout_id: rollout, masked: build.masked, metrics: build.metrics, calls };
  await printText(options.json ? `${JSON.stringify(json)}\n` : describeTree(tree));
  return 0;
}

async function inspectDirectory({ dir, entries, json }: RolloutOptions): Promise<number> {
  if (dir === undefined || entries !== undefined)
    throw new ConfigError(
      "INVALID_VALUE",
      "--dir",
      "must be given, alone: without a rollout id, inspect tells what the stores of a folder hold",
    );
  const stores = await inspectStores(dir);
  await printText(json ? `${JSON.stringify({ stores })}\n` : stores.map(describeStore).join("\n"));
  return 0;
}

function describeStore(store: InspectedStore): string {
  const { open, frozen, retired } = store.rollouts;
  const { oldestMs, newestMs } = store;
  const changed =
    oldestMs === null || newestMs === null
      ? []
      : [`  changed     ${isoTime(oldestMs)} to ${isoTime(newestMs)}`];
  return [
    `${store.dir}: store version ${store.storeVersion}, ${megabytes(store.fileBytes)}`,
    `  rollouts    ${open} open, ${frozen} frozen, ${retired} retired`,
    `  calls       ${store.calls} recorded, ${store.failedCalls} failed, ${store.abortedCalls} aborted, ` +
      `${store.unsettledCalls} not settled`,
    `  records     ${megabytes(store.recordBytes)}, ${store.generatedTokens} generated tokens`,
    `  incomplete  ${counted(store.incomplete, store.incompleteReasons)}`,
    `  masked      ${counted(store.masked, store.maskReasons)}`,
    `  refused     ${store.refusedPuts} puts, ${store.lateWrites} late writes`,
    ...changed,
    "",
  ].join("\n");
}

function counted(total: number, reasons: Readonly<Record<string, number>>): string {
  const each = Object.entries(reasons).map(([reason, count]) => `${reason} ${count}`);
  return each.length === 0 ? String(total) : `${total}: ${each.join(", ")}`;
}

function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`;
}

function isoTime(ms: number): string {
  return new Date(ms).toISOString();
}
