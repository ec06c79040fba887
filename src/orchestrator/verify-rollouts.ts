/**
 * Judges a results file: each row by itself, the share of calls that re-encoding would change, and, with the engine that
 * sampled them, whether the captured log probabilities can be computed again.
 */
import { readFileSync } from "node:fs";
import path from "node:path";
import { trajectoryRows } from "../capture/index.js";
import {
  ByteLevelVocabulary,
  EmbeddedPolicy,
  loadQwen3Vocabulary,
  type PolicySampling,
  type PolicySnapshot,
  type Vocabulary,
} from "../embedded-policy/index.js";
import { captureDecisions, rowSelection } from "./config/decisions.js";
import { isMapping } from "./config/merge.js";
import type { CorralConfig } from "./config/schema.js";
import { readJsonLines } from "./jsonl.js";
import { loadPolicies } from "./policies.js";
import { type CheckedRow, checkRow, type GeneratedItem } from "./verify-row.js";

export interface VerifyReport {
  rows: number;
  masked: number;
  /** Rows of selected agents without `_ng_token_capture`. Each is a fault. */
  notRebuilt: number;
  /** Calls in the trajectories. */
  calls: number;
  generatedTokens: number;
  /** Calls whose ids change when their text is encoded again: what a trainer without captured ids would get wrong. */
  reencodedDifferently: number;
  /** Calls of a model whose vocabulary is not known here, and which were not encoded again. */
  notReencoded: number;
  /** Calls whose log probabilities were computed again. */
  replayedCalls: number;
  /** Largest |replayed − captured| log probability, nats; null when nothing was replayed. */
  maxReplayDifference: number | null;
  /** Why calls were not replayed → number of calls. */
  notReplayed: Record<string, number>;
  faults: { line: number; rolloutId: string; problem: string }[];
}

/** Nats. On the machine that sampled it is 0; another one's `Math.exp` may round otherwise. */
const MAX_REPLAY_DIFFERENCE = 1e-6;

interface Replay {
  readonly policy: EmbeddedPolicy;
  readonly snapshots: ReadonlyMap<string, PolicySnapshot>;
}

/**
 * Without a config every row counts as one of a selected agent and nothing is replayed.
 * @throws FILE_NOT_FOUND when the file cannot be read.
 */
export async function verifyRollouts(file: string, config?: CorralConfig): Promise<VerifyReport> {
  const vocabulary = await loadQwen3Vocabulary();
  const replay =
    config === undefined
      ? undefined
      : { policy: new EmbeddedPolicy(vocabulary), snapshots: await loadPolicies(config) };
  const vocabularyOf = vocabularies(vocabulary, config);
  const isSelected = config === undefined ? () => true : rowSelection(captureDecisions(config));
  const report = emptyReport();
  const ids = new Set<string>();
  for await (const { line, value } of readJsonLines(file, "--rollouts")) {
    report.rows++;
    if (value === undefined) {
      report.faults.push({ line, rolloutId: "?", problem: "is not JSON" });
      continue;
    }
    const [shown, ...others] = (isMapping(value) ? trajectoryRows(value) : [value]).map(checkRow);
    if (shown === undefined) continue;
    const { rolloutId } = shown;
    const fault = (problem: string) => report.faults.push({ line, rolloutId, problem });
    if (ids.has(rolloutId)) fault("stands in the file twice");
    ids.add(rolloutId);
    if (shown.masked) report.masked++;
    if (!shown.hasMetrics && isSelected(value)) {
      report.notRebuilt++;
      fault("not_rebuilt: has no _ng_token_capture");
    }
    for (const [index, row] of [shown, ...others].entries()) {
      const found = (problem: string) =>
        fault(index === 0 ? problem : `trajectory ${index}: ${problem}`);
      for (const problem of row.faults) found(problem);
      await measure(report, row, vocabularyOf(modelOf(value)));
      if (replay !== undefined) replayRow(report, row, value, replay, found);
    }
  }
  return report;
}

function emptyReport(): VerifyReport {
  return {
    rows: 0,
    masked: 0,
    notRebuilt: 0,
    calls: 0,
    generatedTokens: 0,
    reencodedDifferently: 0,
    notReencoded: 0,
    replayedCalls: 0,
    maxReplayDifference: null,
    notReplayed: {},
    faults: [],
  };
}

type Vocabularies = (model: unknown) => Vocabulary | undefined;

/** The vocabulary of a row's model. Without a config, and for embedded engines, it is Qwen3's. */
function vocabularies(qwen3: Vocabulary, config?: CorralConfig): Vocabularies {
  if (config === undefined) return () => qwen3;
  const loaded = new Map<string, Vocabulary>();
  return (model) => {
    const engine = config.responses_api_models[String(model)]?.engine;
    if (engine === undefined || engine.kind === "embedded") return qwen3;
    const directory = "model_dir" in engine ? engine.model_dir : undefined;
    if (directory === undefined) return undefined;
    const file = path.join(directory, "tokenizer.json");
    const vocabulary = loaded.get(file) ?? ByteLevelVocabulary.parse(readFileSync(file, "utf8"));
    loaded.set(file, vocabulary);
    return vocabulary;
  };
}

function modelOf(row: unknown): unknown {
  const response = isMapping(row) ? row["response"] : undefined;
  return isMapping(response) ? response["model"] : undefined;
}

async function measure(
  report: VerifyReport,
  row: CheckedRow,
  vocabulary: Vocabulary | undefined,
): Promise<void> {
  for (const { generationIds } of row.items) {
    report.calls++;
    report.generatedTokens += generationIds.length;
    if (vocabulary === undefined) report.notReencoded++;
    else if (!(await encodesTo(generationIds, vocabulary))) report.reencodedDifferently++;
  }
}

async function encodesTo(ids: Int32Array, vocabulary: Vocabulary): Promise<boolean> {
  if (!ids.every((id) => id < vocabulary.size)) return false;
  const again = await vocabulary.encode(vocabulary.decode(ids));
  return again.length === ids.length && ids.every((id, at) => again[at] === id);
}

function replayRow(
  report: VerifyReport,
  row: CheckedRow,
  value: unknown,
  replay: Replay,
  fault: (problem: string) => void,
): void {
  if (row.items.length === 0) return;
  const digest = checkpointDigest(value);
  const snapshot = digest === undefined ? undefined : replay.snapshots.get(digest);
  if (snapshot === undefined) {
    const reason =
      digest === undefined
        ? "the row names no checkpoint"
        : `checkpoint ${digest.slice(0, 12)} is not the config's`;
    report.notReplayed[reason] = (report.notReplayed[reason] ?? 0) + row.items.length;
    return;
  }
  for (const [index, item] of row.items.entries()) {
    try {
      const difference = replayDifference(item, snapshot, replay.policy);
      report.replayedCalls++;
      report.maxReplayDifference = Math.max(report.maxReplayDifference ?? 0, difference);
      if (difference > MAX_REPLAY_DIFFERENCE)
        fault(`generated item ${index}: replayed log probability is off by ${difference}`);
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      fault(`generated item ${index} cannot be replayed: ${reason}`);
    }
  }
}

function checkpointDigest(row: unknown): string | undefined {
  const policy = isMapping(row) ? row["_ng_policy"] : undefined;
  const digest = isMapping(policy) ? policy["checkpoint_digest"] : undefined;
  return typeof digest === "string" ? digest : undefined;
}

/** Largest |replayed − captured| of the item, nats. */
function replayDifference(
  item: GeneratedItem,
  snapshot: PolicySnapshot,
  policy: EmbeddedPolicy,
): number {
  const score = policy.score(
    snapshot,
    item.promptIds,
    item.generationIds,
    samplingOf(item.sampling),
  );
  const replayed = item.logprobsMode === "raw" ? score.rawLogProbs : score.processedLogProbs;
  return item.logProbs.reduce(
    (largest, captured, at) =>
      Math.max(largest, Math.abs((replayed[at] ?? Number.NEGATIVE_INFINITY) - captured)),
    0,
  );
}

function samplingOf(sampling: Readonly<Record<string, unknown>>): PolicySampling {
  const number = (key: string, fallback: number) => {
    const value = sampling[key];
    return typeof value === "number" ? value : fallback;
  };
  return {
    temperature: number("temperature", 1),
    topP: number("top_p", 1),
    topK: number("top_k", 0),
    seed: number("seed", 0),
    maxTokens: number("max_tokens", Number.MAX_SAFE_INTEGER),
  };
}
