/**
 * Rows from what runs keep in their folders: the journal says what was finished and what it was worth, the store holds
 * the records. Nothing is frozen, dropped or written.
 *
 * K1. A row is built as the run's consumer builds it: the same checks against the same ledgers.
 * K2. What the trainer rejected is left out; so is what has no records left: its row is in the run's results.
 */
import path from "node:path";
import {
  CaptureEvidence,
  type JournaledRollout,
  JournalRecord,
  slotKey,
  textRow,
} from "../../actors/index.js";
import { TokenCaptureStore } from "../../capture/index.js";
import { ConfigError } from "../errors.js";
import { readJsonLines } from "../jsonl.js";
import { runDirectories } from "../run-directories.js";

const ignore = () => undefined;

/**
 * Of a run directory, or of each in a folder of them.
 * @throws RUN_DIRECTORY when there is no store; FILE_NOT_FOUND when one has no journal; INVALID_VALUE for a bad line.
 */
export async function* keptRows(
  dir: string,
  chains: "main" | "all",
): AsyncGenerator<Record<string, unknown>> {
  for (const folder of runDirectories(dir)) {
    const store = new TokenCaptureStore({ dir: folder, allowNetworkFs: true });
    try {
      yield* rowsOfRun(store, await finishedIn(path.join(folder, "journal.jsonl")), chains);
    } finally {
      await store.close();
    }
  }
}

async function* rowsOfRun(
  store: TokenCaptureStore,
  finished: Iterable<JournaledRollout>,
  delivery: "main" | "all",
): AsyncGenerator<Record<string, unknown>> {
  for (const rollout of finished) {
    const { rolloutId, captured } = rollout.finished;
    const snapshot = captured ? await store.peek(rolloutId) : undefined;
    if (snapshot === undefined || snapshot.entries.length === 0) continue; // K2
    const evidence = new CaptureEvidence({
      source: { freeze: () => Promise.resolve(snapshot), drop: () => Promise.resolve(false) },
      rebuildResponse: true,
      rows: { delivery },
      logger: { info: ignore, warn: ignore },
    });
    const row = textRow(rollout.finished);
    await evidence.rebuild(row, rollout, [], "plain"); // K1
    yield row;
  }
}

/** What was finished and not rejected, one rollout a slot. */
async function finishedIn(journal: string): Promise<Iterable<JournaledRollout>> {
  const finished = new Map<string, JournaledRollout>();
  for await (const { line, value } of readJsonLines(journal, "--dir")) {
    const { success, data: record } = JournalRecord.safeParse(value);
    if (!success)
      throw new ConfigError("INVALID_VALUE", "--dir", `line ${line} of ${journal} is no record`);
    if (record.state === "rejected") finished.delete(slotKey(record.slot));
    if (record.state !== "finished") continue;
    const key = slotKey(record.finished.slot);
    // Written by a run, and its shape was checked: the looseness keeps fields, not types.
    if (!finished.has(key)) finished.set(key, value as JournaledRollout);
  }
  return finished.values();
}
