// Opens what a crash left and compares it with what was acknowledged before.
import { join } from "node:path";
import Database from "better-sqlite3";
import { finalizeRolloutTokenCapture, STORE_FILE_NAME, TokenCaptureStore } from "corral/capture";

/**
 * Faults found, each a line: an acknowledged record that is not there, a rollout that looks complete and is not, a
 * store that does not open. None is what there must be.
 */
export async function judge(dir, history) {
  const faults = [];
  let store;
  try {
    store = new TokenCaptureStore({ dir });
    const check = new Database(join(dir, STORE_FILE_NAME), { readonly: true });
    const integrity = check.pragma("integrity_check", { simple: true });
    check.close();
    if (integrity !== "ok") faults.push(`integrity: ${integrity}`);
    await store.abandonOpen();
  } catch (error) {
    return [`does not open: ${error.message}`];
  }
  for (const [id, rollout] of history) faults.push(...(await judgeRollout(store, id, rollout)));
  await store.close();
  return faults;
}

async function judgeRollout(store, id, { said, begun, put, ended }) {
  if (!said.has("opened") && put.size === 0) return [];
  let snapshot;
  const row = { _ng_rollout_id: id, response: { output: [] } };
  const freeze = async (rolloutId) => (snapshot = await store.freeze(rolloutId));
  const built = await finalizeRolloutTokenCapture(row, { freeze });
  if (snapshot === undefined) {
    const isDropped = built.error?.code === "ROLLOUT_RETIRED" && said.has("dropping");
    return isDropped ? [] : [`${id}: ${built.error?.code}: ${built.error?.message}`];
  }
  const faults = [];
  const stored = new Set(snapshot.entries.map((entry) => entry.model_call_id));
  for (const call of put)
    if (!stored.has(call)) faults.push(`${id}: ${call} was acknowledged and is lost`);
  if (said.has("dropped")) faults.push(`${id}: was dropped and is back`);
  if (said.has("frozen") && snapshot.incomplete)
    faults.push(`${id}: was frozen complete and is ${snapshot.incompleteReasons}`);
  const open = [...begun].filter((call) => !stored.has(call) && !ended.has(call));
  const isWhole = said.has("freezing") && open.length === 0;
  if (!isWhole && (!snapshot.incomplete || !built.masked))
    faults.push(`${id}: looks complete and is not (${open.length} open calls)`);
  return faults;
}
