/**
 * Kills a whole `corral run` with SIGKILL at seeded moments, starts it again with the same `--out` to its end, and
 * holds what is left against a log of the answers that the harness had received.
 */
import fs from "node:fs";
import path from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { expect } from "vitest";
import { servedMessageId } from "../../dist/actors/model-server/served-ids.js";
import { TokenCaptureStore } from "../../dist/capture/index.js";
import { type CorralProcess, runCorral, startCorral } from "./corral-cli.js";
import { descendantsOf, isAlive, processesOf } from "./processes.js";

const dyingActor = new URL("../fixtures/dying-actor.mjs", import.meta.url).href;
/** The time our promise leaves a harness after the death of its parent, ms. */
const HARNESS_END_MS = 5000;

export interface ChaosFiles {
  readonly config: string;
  readonly tasks: string;
  /** `<task>-<rollout>` of every row that the run must have. */
  readonly slots: readonly string[];
  /** The harness appends `{rolloutId, messageId}` here, durably, for each answer it holds. */
  readonly acknowledged: string;
  /** Temporary directory of the run; nothing else is in it. */
  readonly tempRoot: string;
  readonly env?: NodeJS.ProcessEnv;
}

export type JournalState = "started" | "finished" | "handed_off" | "accepted";

/**
 * When to kill: so long after the start, when so many records of a state were journaled since, or in an actor's thread
 * at its n-th step towards something durable (see the fixture).
 */
export type Moment =
  | { readonly afterMs: number }
  | { readonly state: JournalState; readonly count: number }
  | { readonly actor: string; readonly step: number };

type Row = Record<string, unknown> & {
  _ng_rollout_id: string;
  mask_sample?: true;
  response: { output: { _ng_model_call?: { model_call_id: string } }[] };
};

export class ChaosRun {
  readonly out: string;
  readonly #files: ChaosFiles;

  constructor(files: ChaosFiles, out: string) {
    this.#files = files;
    this.out = out;
  }

  start(env: NodeJS.ProcessEnv = {}): CorralProcess {
    const { tempRoot } = this.#files;
    return startCorral(this.#args, { env: { ...this.#files.env, TMPDIR: tempRoot, ...env } });
  }

  /** A run that does something to itself in the thread of one of its actors. */
  startWith(actor: string, env: NodeJS.ProcessEnv): CorralProcess {
    const options = { NODE_OPTIONS: `--import ${dyingActor}`, CORRAL_TEST_ACTOR: actor };
    return this.start({ ...options, ...env });
  }

  /** Runs to the end, with a row for every slot: 0, or 1 when a rollout failed. */
  async finish(): Promise<{ code: number | null; durationMs: number }> {
    const startedAt = performance.now();
    const { code, stderr } = await this.start().result;
    expect(code, stderr).toBeLessThanOrEqual(1);
    return { code, durationMs: performance.now() - startedAt };
  }

  /**
   * Starts the run, kills it at the moment and waits until nothing of it lives. Returns what the journal's last record
   * says then; undefined when the run had ended before.
   */
  async kill(moment: Moment): Promise<string | undefined> {
    const before = this.#records(moment);
    const run =
      "step" in moment
        ? this.startWith(moment.actor, { CORRAL_TEST_KILL_STEP: String(moment.step) })
        : this.start();
    const below = await this.#killWhen(moment, before, run);
    const { signal } = await run.result;
    if (signal === null) return undefined;
    await this.expectNothingLeft(below);
    return this.#journal().at(-1) ?? "no journal";
  }

  /** The processes that the run had when it was killed, where it was killed from here. */
  async #killWhen(moment: Moment, before: number, run: CorralProcess): Promise<number[]> {
    if ("step" in moment) return [];
    const due =
      "afterMs" in moment
        ? delay(moment.afterMs)
        : this.journaled(moment.state, before + moment.count, run).catch(() => undefined);
    await Promise.race([due, run.result]);
    const below = descendantsOf(run.child.pid as number);
    run.child.kill("SIGKILL");
    return below;
  }

  /** Resolves when the journal holds so many records of the state; rejects when the run ends before. */
  async journaled(state: JournalState, count: number, { result }: CorralProcess): Promise<void> {
    let ended = false;
    void result.then(() => {
      ended = true;
    });
    while (this.#records({ state, count }) < count) {
      if (ended) throw new Error(`the run ended before ${count} records "${state}"`);
      await delay(1);
    }
  }

  /** No process and no directory of a rollout. */
  async expectNothingLeft(pids: readonly number[] = []): Promise<void> {
    const left = () => ({
      pids: pids.filter(isAlive),
      processes: processesOf(this.#files.tempRoot),
      files: fs.readdirSync(this.#files.tempRoot),
    });
    await expect
      .poll(left, { timeout: HARNESS_END_MS, interval: 20 })
      .toEqual({ pids: [], processes: [], files: [] });
  }

  /** What is wrong with a run that has ended. While its store was dead, calls were answered and not recorded. */
  async faults({ storeDied = false } = {}): Promise<string[]> {
    const rows = readLines(this.out) as Row[];
    const calls = await this.#callFaults(rows, storeDied);
    return [...this.#slotFaults(rows), ...calls, ...(await this.#verify())];
  }

  get #args(): string[] {
    const { config, tasks } = this.#files;
    return ["run", "--config", config, "--tasks", tasks, "--out", this.out];
  }

  #runDirectory(): string | undefined {
    const note = `${this.out}.run`;
    return fs.existsSync(note) ? JSON.parse(fs.readFileSync(note, "utf8")).dir : undefined;
  }

  #records(moment: Moment): number {
    return "state" in moment ? this.#journal().filter((state) => state === moment.state).length : 0;
  }

  /** States of the journal's records; a torn last line has none. */
  #journal(): string[] {
    const journal = path.join(this.#runDirectory() ?? this.out, "journal.jsonl");
    if (!fs.existsSync(journal)) return [];
    const lines = fs.readFileSync(journal, "utf8").split("\n").slice(0, -1);
    return lines.map((line) => JSON.parse(line).state);
  }

  #slotFaults(rows: readonly Row[]): string[] {
    const found = rows.map((row) => `${row["_ng_task_index"]}-${row["_ng_rollout_index"]}`);
    const lost = this.#files.slots.filter((slot) => !found.includes(slot));
    const doubled = found.filter((slot, index) => found.indexOf(slot) !== index);
    return [
      ...lost.map((slot) => `slot ${slot} has no row`),
      ...doubled.map((slot) => `slot ${slot} has a second row`),
    ];
  }

  /**
   * Every acknowledged answer is in its row, or in the store and its row, if it has one, is masked. Of a trainable row
   * nothing is left in the store.
   */
  async #callFaults(rows: readonly Row[], storeDied: boolean): Promise<string[]> {
    const store = new TokenCaptureStore({ dir: this.#runDirectory() as string });
    const faults: string[] = [];
    for (const [rolloutId, messageIds] of this.#acknowledged()) {
      const row = rows.find((each) => each._ng_rollout_id === rolloutId);
      const masked = row?.mask_sample === true;
      const stored = await storedOf(store, rolloutId);
      const lost = messageIds.filter((id) => !deliveredIds(row).has(id));
      const gone = storeDied ? [] : lost.filter((id) => !stored.ids.has(id));
      faults.push(...gone.map((id) => `${rolloutId}: ${id} is nowhere`));
      if (row === undefined && !stored.incomplete) faults.push(`${rolloutId}: looks complete`);
      if (row === undefined || masked) continue;
      faults.push(...lost.map((id) => `${rolloutId}: lost ${id} and is not masked`));
      if (!stored.retired) faults.push(`${rolloutId}: delivered, and its evidence stays`);
    }
    await store.close();
    return faults;
  }

  /** Rollout id → ids of the answers that its harness held. */
  #acknowledged(): Map<string, string[]> {
    const answers = new Map<string, string[]>();
    for (const line of readLines(this.#files.acknowledged)) {
      const { rolloutId, messageId } = line as { rolloutId: string; messageId: string };
      answers.set(rolloutId, [...(answers.get(rolloutId) ?? []), messageId]);
    }
    return answers;
  }

  async #verify(): Promise<string[]> {
    const args = ["verify", "--rollouts", this.out, "--config", this.#files.config, "--json"];
    const { code, stdout, stderr } = await runCorral(args);
    if (code !== 0) return [`corral verify: exit ${code}: ${stdout}${stderr}`];
    const { maxReplayDifference: difference, replayedCalls, calls } = JSON.parse(stdout);
    const exact = calls === replayedCalls && (calls === 0 || difference === 0);
    return exact ? [] : [`corral verify: ${stdout}`];
  }
}

function readLines(file: string): unknown[] {
  const text = fs.existsSync(file) ? fs.readFileSync(file, "utf8") : "";
  const lines = text.split("\n").filter((line) => line !== "");
  return lines.map((line) => JSON.parse(line));
}

function deliveredIds(row: Row | undefined): Set<string> {
  const calls = row?.response.output.flatMap((item) => item._ng_model_call?.model_call_id ?? []);
  return new Set(calls?.map((callId) => servedMessageId(callId, "msg_")));
}

/** A retired rollout holds nothing any more. */
async function storedOf(store: TokenCaptureStore, rolloutId: string) {
  try {
    const { entries, incomplete } = await store.freeze(rolloutId);
    const ids = new Set(entries.map((entry) => entry.served_message_id));
    return { ids, incomplete, retired: false };
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ROLLOUT_RETIRED")
      return { ids: new Set<string | undefined>(), incomplete: false, retired: true };
    throw error;
  }
}

/** Numbers in [0, 1) that a seed repeats (mulberry32). */
export function seededRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
