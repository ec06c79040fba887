/** What the stores under a folder hold. Nothing is written and nothing is frozen. */
import {
  type FinalizeOptions,
  finalizeRolloutTokenCapture,
  type StoreSummary,
  TokenCaptureStore,
} from "../capture/index.js";
import { isFrozen, type Journalled, readJournal } from "./rollout-records.js";
import { runDirectories } from "./run-directories.js";

export interface InspectedStore extends StoreSummary {
  readonly dir: string;
  /** Frozen rollouts that a rebuild masks, and how many of them for each reason: one may have several. */
  readonly masked: number;
  readonly maskReasons: Readonly<Record<string, number>>;
}

/** @throws ConfigError RUN_DIRECTORY when there is no store. */
export async function inspectStores(dir: string): Promise<InspectedStore[]> {
  const inspected: InspectedStore[] = [];
  for (const folder of runDirectories(dir)) inspected.push(await inspectStore(folder));
  return inspected;
}

async function inspectStore(dir: string): Promise<InspectedStore> {
  const store = new TokenCaptureStore({ dir, allowNetworkFs: true });
  try {
    const summary = await store.summary();
    const journal = await readJournal(dir);
    const maskReasons: Record<string, number> = {};
    let masked = 0;
    for (const rolloutId of summary.frozenIds) {
      const codes = await maskCodes(store, rolloutId, journal.get(rolloutId));
      if (codes.size > 0) masked += 1;
      for (const code of codes) maskReasons[code] = (maskReasons[code] ?? 0) + 1;
    }
    return { dir, ...summary, masked, maskReasons };
  } finally {
    await store.close();
  }
}

/** As the run's consumer masks it; none when it is sound, or was dropped in the meantime. */
async function maskCodes(
  store: TokenCaptureStore,
  rolloutId: string,
  known: Journalled | undefined,
): Promise<Set<string>> {
  const snapshot = await store.peek(rolloutId);
  if (snapshot === undefined || !isFrozen(snapshot)) return new Set();
  const source = { freeze: () => Promise.resolve(snapshot) };
  const { masked, metrics } = await finalizeRolloutTokenCapture(
    { _ng_rollout_id: rolloutId },
    source,
    { arrays: "views", ...(known === undefined ? {} : evidenceOf(known)) },
  );
  return new Set(masked ? metrics?.mask_reasons.map(({ code }) => code) : []);
}

function evidenceOf({ terminal, ledgers }: Journalled): FinalizeOptions {
  return {
    terminal,
    ledgers: ledgers.filter((ledger) => ledger !== null),
    extraMaskReasons: ledgers.includes(null) ? [{ code: "WORKER_DIED" }] : [],
  };
}
