/** What conformance checks put, and how they look at what comes back. */
import type { TokenCaptureSnapshot, TokenLineage, TokenSink, TokenSource } from "./contracts.js";
import { entryDigest } from "./digest.js";
import { parseTokenEntry } from "./parse-entry.js";
import type { TokenEntry } from "./records.js";

/** What a check works with: clients that are closed after it, and an id nobody else has. */
export interface ConformanceBench {
  readonly rolloutId: string;
  sink(): Promise<TokenSink>;
  source(): Promise<TokenSource>;
  lineage(): Promise<TokenLineage>;
}

/** `run` throws an Error whose message says what was seen. */
export interface ConformanceCheck {
  /** `contract.sentence`. */
  readonly name: string;
  run(bench: ConformanceBench): Promise<void>;
  /** False for an optional part that the adapter does not have. Default true. */
  applies?(bench: ConformanceBench): Promise<boolean>;
}

/** What dispatch calls; only a store that gives out epochs has it. */
export interface Dispatch {
  open?(rolloutId: string): Promise<unknown>;
  reset?(rolloutId: string): Promise<unknown>;
  sweepRetired?(olderThanMs: number): Promise<unknown>;
}

/** A record with everything a store could lose: large ids, all digits of a double, text outside the BMP. */
export function recordOf(
  rolloutId: string,
  callId: string,
  fields: Partial<TokenEntry> = {},
): TokenEntry {
  return {
    schema_version: 1,
    rollout_id: rolloutId,
    model_call_id: callId,
    model: "policy",
    prompt_token_ids: Int32Array.of(1, 2, 3, 2 ** 31 - 1),
    generation_token_ids: Int32Array.of(7, 0, 8),
    generation_log_probs: Float64Array.of(-0.1, -1e-9, -123.45678901234568),
    output_items: [
      { type: "message", id: `msg-${callId}`, content: [{ type: "output_text", text: "ä 🜚\n" }] },
    ],
    token_item_index: 0,
    created_at: 1_700_000_000.25,
    policy_version_start: 3,
    policy_version_end: 4,
    policy_version_spans: [
      { version: 3, start: 0, end: 1 },
      { version: 4, start: 1, end: 3 },
    ],
    finish_reason: "stop",
    sampling: { temperature: 1, seed: 4_000_000_000 },
    parent_resolution: "ROOT",
    served_message_id: `served-${callId}`,
    served_text: `answer of ${callId}`,
    served_tool_calls: [],
    context_digest: "context",
    context_length: 1,
    fingerprint_version: 1,
    ...fields,
  };
}

/** `beginCall` where the sink has it, then `put`: what a model server does. */
export async function record(sink: TokenSink, entry: TokenEntry): Promise<void> {
  await sink.beginCall?.(entry.rollout_id, entry.model_call_id);
  await sink.put(entry);
}

/** The client that has this method of dispatch, if one has. */
export async function dispatchOf(
  bench: ConformanceBench,
  method: keyof Dispatch,
): Promise<Dispatch | undefined> {
  const clients: Dispatch[] = [await bench.sink(), await bench.source()] as object[];
  return clients.find((client) => typeof client[method] === "function");
}

/** Where no client has `open`, a rollout is opened by its first call. */
export async function open(bench: ConformanceBench, rolloutId = bench.rolloutId): Promise<void> {
  await (await dispatchOf(bench, "open"))?.open?.(rolloutId);
}

/** A snapshot through a client that has seen nothing. */
export async function freeze(
  bench: ConformanceBench,
  rolloutId = bench.rolloutId,
): Promise<TokenCaptureSnapshot> {
  return (await bench.source()).freeze(rolloutId);
}

/** A rollout with one record, frozen. */
export async function frozenOne(bench: ConformanceBench) {
  const sink = await bench.sink();
  await open(bench);
  await record(sink, recordOf(bench.rolloutId, "c1"));
  return { sink, snapshot: await freeze(bench) };
}

/** Names of the methods that the client does not have. */
export function missing(client: object, methods: readonly string[]): string[] {
  return methods.filter((name) => typeof (client as Record<string, unknown>)[name] !== "function");
}

/** @throws what was seen, unless it holds. */
export function expect(holds: boolean, seen: string): void {
  if (!holds) throw new Error(seen);
}

export async function expectRefused(action: () => Promise<unknown>, what: string): Promise<void> {
  try {
    await action();
  } catch {
    return;
  }
  throw new Error(`${what} was accepted`);
}

/** Complete, and exactly these records, value for value. */
export function expectRecords(
  snapshot: TokenCaptureSnapshot,
  expected: readonly TokenEntry[],
): void {
  expect(!snapshot.incomplete, `the snapshot is incomplete (${reasonsOf(snapshot)})`);
  const found = new Map(snapshot.entries.map((entry) => [entry.model_call_id, entry]));
  const ids = (of: Iterable<string>) => [...of].sort().join(", ") || "none";
  const wanted = ids(expected.map((entry) => entry.model_call_id));
  expect(
    found.size === expected.length && snapshot.entries.length === expected.length,
    `the snapshot holds ${snapshot.entries.length} records (${ids(found.keys())}), put were ${wanted}`,
  );
  for (const entry of expected) {
    const stored = found.get(entry.model_call_id);
    expect(stored !== undefined, `${entry.model_call_id} is not in the snapshot`);
    const { digest: _digest, ...own } = parseTokenEntry(stored);
    expect(
      entryDigest(own) === entryDigest(parseTokenEntry(entry)),
      `the record of ${entry.model_call_id} is not the one that was put`,
    );
  }
}

function reasonsOf(snapshot: TokenCaptureSnapshot): string {
  return (snapshot.incompleteReasons ?? []).join(", ") || "no reason given";
}
