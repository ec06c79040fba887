/**
 * A data plane in memory that keeps every contract, with clients as workers have them; and, on request, one that
 * breaks exactly one sentence.
 */
import {
  CaptureError,
  cumulativeDigest,
  entryDigest,
  type LineageKey,
  type LineageNode,
  type TokenCaptureSnapshot,
  type TokenEntry,
} from "../../src/capture/index.js";

interface Rollout {
  epoch: number;
  state: "open" | "frozen" | "retired";
  version: number;
  snapshotId: string;
  readonly entries: Map<string, TokenEntry>;
  readonly intents: Set<string>;
  readonly ended: Map<string, string>;
  incomplete: boolean;
}

export class MemoryDataPlane {
  /** Names of the checks that must fail. */
  readonly broken: ReadonlySet<string>;
  readonly #rollouts = new Map<string, Rollout>();
  #epochs = 0;
  #snapshots = 0;

  constructor(...broken: string[]) {
    this.broken = new Set(broken);
  }

  makeSink = () => new Sink(this);
  makeSource = () => new Source(this);
  makeLineage = () => new Lineage(this);

  rollout(id: string, byDispatch = false): Rollout {
    let found = this.#rollouts.get(id);
    if (found === undefined) {
      found = this.#fresh();
      found.incomplete = !byDispatch && !this.broken.has("open.only-dispatch");
      this.#rollouts.set(id, found);
    }
    return found;
  }

  peek(id: string): Rollout | undefined {
    return this.#rollouts.get(
      this.broken.has("put.rollouts-apart") ? id.replace(/[.-]1$/, "") : id,
    );
  }

  reset(id: string): void {
    const old = this.#rollouts.get(id);
    if (old?.state === "frozen" && !this.broken.has("reset.frozen"))
      throw new CaptureError("ROLLOUT_FROZEN", `${id} is frozen`);
    if (this.broken.has("reset.forgets")) return;
    this.#rollouts.set(id, this.#fresh());
  }

  #fresh(): Rollout {
    return {
      epoch: ++this.#epochs,
      state: "open",
      version: 0,
      snapshotId: `s${++this.#snapshots}`,
      entries: new Map(),
      intents: new Set(),
      ended: new Map(),
      incomplete: false,
    };
  }
}

class Sink {
  readonly #plane: MemoryDataPlane;
  readonly #epochs = new Map<string, number>();
  readonly #held: TokenEntry[] = [];
  #closed = false;
  markIncomplete: ((rolloutId: string, callId?: string) => Promise<void>) | undefined;

  constructor(plane: MemoryDataPlane) {
    this.#plane = plane;
    this.markIncomplete = plane.broken.has("sink.methods") ? undefined : this.#mark;
  }

  async open(rolloutId: string): Promise<void> {
    this.#plane.rollout(rolloutId, true);
  }

  async reset(rolloutId: string): Promise<void> {
    this.#plane.reset(rolloutId);
  }

  async beginCall(rolloutId: string, callId: string): Promise<void> {
    const rollout = this.#plane.rollout(rolloutId);
    this.#epochs.set(callId, rollout.epoch);
    if (!this.#plane.broken.has("intent.dangling")) rollout.intents.add(callId);
  }

  async endCall(rolloutId: string, callId: string, outcome: string): Promise<void> {
    const rollout = this.#plane.rollout(rolloutId);
    rollout.intents.delete(callId);
    if (!this.#plane.broken.has("intent.ended")) rollout.ended.set(callId, outcome);
  }

  async put(entry: TokenEntry): Promise<void> {
    const { broken } = this.#plane;
    const id = broken.has("put.rollouts-apart")
      ? entry.rollout_id.replace(/[.-]1$/, "")
      : entry.rollout_id;
    if (broken.has("put.visible-at-once") && this.#held.push(entry) === 1) return;
    this.#store(this.#plane.rollout(id), entry);
  }

  async close(): Promise<void> {
    if (this.#closed && this.#plane.broken.has("close.idempotent")) throw new Error("closed twice");
    this.#closed = true;
  }

  #store(rollout: Rollout, entry: TokenEntry): void {
    const { broken } = this.#plane;
    const callId = entry.model_call_id;
    if (rollout.state === "retired") {
      if (broken.has("drop.tombstone")) return;
      throw new CaptureError("ROLLOUT_RETIRED", "retired");
    }
    if (rollout.state === "frozen") {
      if (broken.has("freeze.late-put")) return;
      this.#fail(rollout, "ROLLOUT_FROZEN");
    }
    const began = this.#epochs.get(callId);
    if (began !== undefined && began !== rollout.epoch && !broken.has("reset.stale-put"))
      throw new CaptureError("STALE_EPOCH", "stale");
    const known = rollout.entries.get(callId);
    if (known !== undefined) {
      if (entryDigest(known) === entryDigest(entry) && !broken.has("put.same-again")) return;
      if (broken.has("put.one-winner") && callId === "c1" && entry.generation_token_ids[2] === 1)
        return;
      if (broken.has("put.conflict")) return;
      this.#fail(rollout, "RECORD_CONFLICT");
    }
    rollout.intents.delete(callId);
    const lossy = { ...entry, generation_log_probs: entry.generation_log_probs.map(Math.fround) };
    rollout.entries.set(callId, broken.has("put.exact") ? lossy : entry);
    if (broken.has("put.two-workers") && rollout.entries.size > 10) rollout.entries.delete("c0");
  }

  #fail(rollout: Rollout, code: "ROLLOUT_FROZEN" | "RECORD_CONFLICT"): never {
    rollout.incomplete = true;
    rollout.version += 1;
    throw new CaptureError(code, code);
  }

  #mark = async (rolloutId: string, callId?: string): Promise<void> => {
    const { broken } = this.#plane;
    if (broken.has("mark.incomplete") && callId === undefined) return;
    const rollout = this.#plane.rollout(rolloutId);
    rollout.incomplete = true;
    if (!broken.has("mark.after-freeze")) rollout.version += 1;
  };
}

class Source {
  readonly #plane: MemoryDataPlane;
  #freezes = 0;
  drop: ((id: string, s: { snapshotId: string; version: number }) => Promise<boolean>) | undefined;

  constructor(plane: MemoryDataPlane) {
    this.#plane = plane;
    this.drop = plane.broken.has("source.methods") ? undefined : this.#drop;
  }

  async freeze(rolloutId: string): Promise<TokenCaptureSnapshot> {
    const { broken } = this.#plane;
    const isKnown = this.#plane.peek(rolloutId) !== undefined;
    if (!isKnown && broken.has("freeze.unseen")) throw new Error("no such rollout");
    const rollout = this.#plane.peek(rolloutId) ?? this.#plane.rollout(rolloutId, true);
    if (rollout.state === "retired") throw new CaptureError("ROLLOUT_RETIRED", "retired");
    if (broken.has("freeze.idempotent") && rollout.state === "frozen") rollout.version += 1;
    rollout.state = "frozen";
    this.#freezes += 1;
    const outcomes = [...rollout.ended.values()];
    return {
      rolloutId,
      entries: [...rollout.entries.values()],
      incomplete: rollout.incomplete || rollout.intents.size > 0,
      incompleteReasons: [],
      failedCalls: outcomes.filter((outcome) => outcome === "failed").length,
      abortedCalls: outcomes.filter((outcome) => outcome === "aborted").length,
      snapshotId: rollout.snapshotId,
      version: rollout.version,
    };
  }

  async close(): Promise<void> {}

  #drop = async (
    id: string,
    snapshot: { snapshotId: string; version: number },
  ): Promise<boolean> => {
    const rollout = this.#plane.peek(id);
    if (rollout?.state !== "frozen") return false;
    const isOther =
      rollout.version !== snapshot.version ||
      (rollout.snapshotId !== snapshot.snapshotId && !this.#plane.broken.has("drop.exact"));
    if (isOther) return false;
    rollout.state = "retired";
    rollout.entries.clear();
    return true;
  };
}

class Lineage {
  readonly #plane: MemoryDataPlane;
  readonly #seen = new Map<string, readonly LineageNode[]>();

  constructor(plane: MemoryDataPlane) {
    this.#plane = plane;
  }

  async candidates(rolloutId: string, key: LineageKey): Promise<readonly LineageNode[]> {
    const { broken } = this.#plane;
    const id = broken.has("lineage.rollouts-apart")
      ? `${rolloutId.replace(/\.1$/, "")}.1`
      : rolloutId;
    const entries = [
      ...((this.#plane.peek(id) ?? this.#plane.peek(rolloutId))?.entries.values() ?? []),
    ];
    const nodes = entries
      .filter((entry) => this.#matches(entry, key))
      .map((entry) => this.#nodeOf(entry));
    if (!broken.has("lineage.visible-at-once")) return nodes;
    const cached = this.#seen.get(rolloutId) ?? nodes;
    this.#seen.set(rolloutId, cached);
    return cached;
  }

  async cumulativeIds(rolloutId: string, callId: string): Promise<Int32Array> {
    const entry = this.#plane.peek(rolloutId)?.entries.get(callId);
    if (entry === undefined) throw new CaptureError("CALL_NOT_FOUND", callId);
    const { prompt_token_ids: prompt, generation_token_ids: generation } = entry;
    if (this.#plane.broken.has("lineage.cumulative-ids")) return prompt;
    return Int32Array.of(...prompt, ...generation);
  }

  #matches(entry: TokenEntry, key: LineageKey): boolean {
    const { broken } = this.#plane;
    const ids = (entry.served_tool_calls ?? []).map((call) => call.id);
    if (key.kind === "tool_call_ids") {
      if (broken.has("lineage.tool-call-ids"))
        return ids.toSorted().join() === key.ids.toSorted().join();
      return ids.length > 0 && ids.join() === key.ids.join();
    }
    if (broken.has("lineage.text")) return entry.served_text?.trim() === key.text.trim();
    return ids.length === 0 && entry.served_text === key.text;
  }

  #nodeOf(entry: TokenEntry): LineageNode {
    const { prompt_token_ids: prompt, generation_token_ids: generation } = entry;
    return {
      modelCallId: entry.model_call_id,
      model: entry.model,
      contextDigest: entry.context_digest ?? "",
      contextLength: entry.context_length ?? 0,
      fingerprintVersion: entry.fingerprint_version ?? 0,
      servedText: entry.served_text ?? "",
      servedToolCalls: entry.served_tool_calls ?? [],
      finishReason: this.#plane.broken.has("lineage.node") ? undefined : entry.finish_reason,
      cumLen: prompt.length + generation.length,
      cumulativeDigest: cumulativeDigest(prompt, generation),
    };
  }
}
