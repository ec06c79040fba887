/**
 * Finds the records of one rollout for people: in a file of records, in the stores under a folder, with what the run's
 * journal knows beside them, or at a server that runs. Nothing is written and nothing is frozen.
 */
import fs from "node:fs";
import path from "node:path";
import { askServer } from "../actors/index.js";
import {
  type BuildOptions,
  type CallLedger,
  parseTokenEntry,
  STORE_FILE_NAME,
  type Terminal,
  type TokenCaptureSnapshot,
  TokenCaptureStore,
  type TokenEntry,
} from "../capture/index.js";
import { isMapping } from "./config/merge.js";
import { ConfigError } from "./errors.js";
import { readJsonLines } from "./jsonl.js";
import { attachServer } from "./remote-serving.js";

/** Where to look: exactly one is given. */
export interface RecordsPlace {
  /** Token records, one JSON object a line. */
  readonly entries?: string;
  /** A run directory, or a folder of them. */
  readonly dir?: string;
  /** URL that `corral serve` printed. What is not sealed yet may still change. */
  readonly server?: string;
}

export interface RolloutRecords {
  readonly entries: readonly TokenEntry[];
  /** As the run itself would build it. */
  readonly options: BuildOptions;
}

/**
 * @throws MISSING_VALUE when no place, or more than one, is given.
 * @throws FILE_NOT_FOUND when the place is not there, or nothing in it is of the rollout.
 */
export async function readRolloutRecords(
  rolloutId: string,
  { entries, dir, server }: RecordsPlace,
): Promise<RolloutRecords> {
  if ([entries, dir, server].filter((place) => place !== undefined).length === 1) {
    if (entries !== undefined) return fromFile(rolloutId, entries);
    if (dir !== undefined) return fromStores(rolloutId, dir);
    if (server !== undefined) return fromServer(rolloutId, server);
  }
  throw new ConfigError(
    "INVALID_VALUE",
    "--entries, --dir, --server",
    "exactly one must be given: a file of token records, the folder of a run's store, or a server's URL",
  );
}

async function fromServer(rolloutId: string, server: string): Promise<RolloutRecords> {
  const { url, attachment } = await attachServer(server);
  if (!attachment.hasStore) throw new ConfigError("NOT_AVAILABLE", "--server", "keeps no records");
  const answer = await askServer(url, { target: "store", method: "peek", args: [rolloutId] });
  const snapshot = answer as TokenCaptureSnapshot | undefined;
  if (snapshot === undefined) throw notFound("--server", rolloutId, "the server");
  return {
    entries: snapshot.entries.map((entry) => parseTokenEntry(entry)),
    options: optionsOf(snapshot, isFrozen(snapshot)),
  };
}

async function fromFile(rolloutId: string, file: string): Promise<RolloutRecords> {
  const entries: TokenEntry[] = [];
  for await (const { line, value } of readJsonLines(file, "--entries")) {
    if (!isMapping(value))
      throw new ConfigError("INVALID_VALUE", "--entries", `line ${line} of ${file} is no record`);
    if (value["rollout_id"] === rolloutId) entries.push(parseTokenEntry(value));
  }
  if (entries.length === 0) throw notFound("--entries", rolloutId, file);
  return { entries, options: { rolloutId } };
}

async function fromStores(rolloutId: string, dir: string): Promise<RolloutRecords> {
  const folders = [dir, ...subfolders(dir)];
  for (const folder of folders.filter((one) => fs.existsSync(path.join(one, STORE_FILE_NAME)))) {
    const store = new TokenCaptureStore({ dir: folder, allowNetworkFs: true });
    try {
      const snapshot = await store.peek(rolloutId);
      if (snapshot === undefined) continue;
      const known = (await readJournal(folder)).get(rolloutId);
      const isFinished = known !== undefined || isFrozen(snapshot);
      return {
        entries: snapshot.entries,
        options: { ...optionsOf(snapshot, isFinished), ...(known && journalled(known)) },
      };
    } finally {
      await store.close();
    }
  }
  throw notFound("--dir", rolloutId, dir);
}

function subfolders(dir: string): string[] {
  try {
    return fs
      .readdirSync(dir, { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map((entry) => path.join(dir, entry.name));
  } catch (cause) {
    const reason = cause instanceof Error && "code" in cause ? String(cause.code) : String(cause);
    throw new ConfigError("FILE_NOT_FOUND", "--dir", `cannot read ${dir} (${reason})`, { cause });
  }
}

/** Not open any more. */
export function isFrozen({ snapshotId }: TokenCaptureSnapshot): boolean {
  return snapshotId !== "";
}

/** What is not finished runs, or its process died: it may look whole between two calls, and is not. */
function optionsOf(snapshot: TokenCaptureSnapshot, isFinished: boolean): BuildOptions {
  const { rolloutId, incomplete, incompleteReasons, failedCalls, abortedCalls } = snapshot;
  const options = { rolloutId, incomplete, incompleteReasons, failedCalls, abortedCalls };
  if (isFinished) return options;
  return {
    ...options,
    incomplete: true,
    incompleteReasons: [...incompleteReasons, "NOT_FINISHED"],
  };
}

/** What the journal of a run knows of a finished rollout: its final answer, and what each server counted. */
export interface Journalled {
  readonly terminal: Terminal;
  /** Null: the server could not say. */
  readonly ledgers: readonly (CallLedger | null)[];
}

/** By rollout id; of several attempts of a name, the first that finished. Empty where there is no journal. */
export async function readJournal(folder: string): Promise<Map<string, Journalled>> {
  const found = new Map<string, Journalled>();
  const file = path.join(folder, "journal.jsonl");
  if (!fs.existsSync(file)) return found;
  for await (const { value } of readJsonLines(file, "--dir")) {
    if (!isMapping(value) || value["state"] !== "finished") continue;
    const { finished, ledgers } = value;
    if (!isMapping(finished)) continue;
    const rolloutId = String(finished["rolloutId"]);
    const outcome = isMapping(finished["outcome"]) ? finished["outcome"] : {};
    if (found.has(rolloutId)) continue;
    found.set(rolloutId, {
      terminal: {
        messageId: textOf(outcome["finalMessageId"]),
        text: textOf(outcome["finalText"]),
      },
      // Written by the run itself.
      ledgers: Array.isArray(ledgers) ? (ledgers as (CallLedger | null)[]) : [],
    });
  }
  return found;
}

function journalled({ terminal, ledgers }: Journalled): Partial<BuildOptions> {
  const undeliveredCallIds = ledgers.flatMap((ledger) => ledger?.undeliveredCallIds ?? []);
  return { terminal, undeliveredCallIds };
}

function textOf(value: unknown): string | null {
  return typeof value === "string" ? value : null;
}

function notFound(option: string, rolloutId: string, where: string): ConfigError {
  return new ConfigError(
    "FILE_NOT_FOUND",
    option,
    `${where} holds nothing of rollout ${rolloutId}`,
  );
}
