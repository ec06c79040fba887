/**
 * The store's write operations as steps over prepared statements. Every method runs inside a transaction that its
 * caller began; what a method leaves behind when it refuses is meant to be committed.
 *
 * O1. Same id and same digest: no write, no version change. Same id, other digest: marked incomplete, then refused.
 * O2. A put after freeze is refused, marks the rollout incomplete and moves its version, so an older drop fails.
 * O3. A retired rollout stays retired: only its tombstone is left, and it refuses every write but `reset`.
 * O4. What began before a reset is refused: its epoch differs, and an epoch is never given twice, also after a sweep.
 * O5. A call that ended without tokens is counted, once, and is never a hole.
 * O6. Only `open` and `reset` make a rollout that can be complete: any other first write makes it incomplete.
 * O7. A record is stored upon a base only if that base is stored, by call id and digest; else it must come whole.
 * O8. A write that does not know its epoch yet counts only beside the intent of its call: no reset leaves an intent. An
 *     intent is of the epoch in which it arrives.
 * O9. What was given up is incomplete, however whole its records are: another attempt stands for it, or none.
 */
import type { EntryRow } from "./entry-row.js";
import type { Connection } from "./schema.js";
import type { CallEpoch, StoreAnswer, StoreOperation } from "./store-protocol.js";
import {
  ROLLOUT_STATE,
  type RolloutRecord,
  type WriteStatements,
  writeStatements,
} from "./store-statements.js";

/** Which frozen rollouts may go. */
export interface PruneFrozen {
  /** Frozen or changed longer ago than this, ms. */
  readonly olderThanMs: number;
  /** The newest stay, as many as fit. Default: none stays. */
  readonly keepBytes?: number;
  /** These alone. Default: every frozen one. */
  readonly only?: readonly string[];
  readonly except?: readonly string[];
}

export interface PrunedRollout {
  readonly rolloutId: string;
  /** Of its records. */
  readonly bytes: number;
}

type Put = Extract<StoreOperation, { kind: "put" }>;
type End = Extract<StoreOperation, { kind: "end" }>;

export class StoreOperations {
  readonly #sql: WriteStatements;
  readonly #now: () => number;

  constructor(connection: Connection, now: () => number) {
    this.#sql = writeStatements(connection);
    this.#now = now;
  }

  apply(operation: StoreOperation): StoreAnswer {
    switch (operation.kind) {
      case "begin":
        return this.#begin(operation.rolloutId, operation.modelCallId);
      case "end":
        return this.#end(operation);
      case "put":
        return this.#put(operation);
      case "mark":
        return this.#markLost(operation.rolloutId, operation.modelCallId);
    }
  }

  /** The epoch of the new rollout; undefined when the id exists in any state. */
  open(rolloutId: string): number | undefined {
    if (this.#find(rolloutId) !== undefined) return undefined;
    return this.#create(rolloutId).epoch;
  }

  /** The new epoch; "frozen" when a frozen rollout still waits to be dropped. */
  reset(rolloutId: string): number | "frozen" {
    const rollout = this.#find(rolloutId);
    if (rollout === undefined) return this.#create(rolloutId).epoch;
    if (rollout.state === ROLLOUT_STATE.frozen) return "frozen";
    const epoch = this.#nextEpoch();
    this.#deleteRecords(rollout.rid);
    this.#sql.reset.run({ rid: rollout.rid, epoch, now: this.#now() });
    return epoch;
  }

  /** False when the rollout is retired. */
  freeze(rolloutId: string, snapshotId: string): boolean {
    const rollout = this.#find(rolloutId) ?? this.#create(rolloutId);
    if (rollout.state === ROLLOUT_STATE.retired) return false;
    // Changes nothing when it is frozen already: the first snapshot id stays.
    this.#sql.freeze.run({ rid: rollout.rid, snapshotId, now: this.#now() });
    return true;
  }

  /** Marks and freezes: one step, so that no snapshot is between. What is frozen keeps its snapshot id. */
  abandon(rolloutId: string, snapshotId: string): void {
    const rollout = this.#find(rolloutId) ?? this.#create(rolloutId);
    if (rollout.state === ROLLOUT_STATE.retired) return;
    this.#mark(rollout.rid, "", "ABANDONED"); // O9
    this.freeze(rolloutId, snapshotId);
  }

  /** False when that snapshot is not the rollout's present state. */
  drop(rolloutId: string, snapshotId: string, version: number): boolean {
    const rollout = this.#find(rolloutId);
    if (rollout === undefined) return false;
    const { rid } = rollout;
    const { changes } = this.#sql.retire.run({ rid, snapshotId, version, now: this.#now() });
    if (changes === 0) return false;
    this.#deleteRecords(rid);
    return true;
  }

  /** Marks every open rollout; their ids. */
  abandonOpen(): string[] {
    const open = this.#sql.allOpen.all();
    for (const { rid } of open) this.#mark(rid, "", "ABANDONED");
    return open.map((rollout) => rollout.rollout_id);
  }

  /** Retires frozen rollouts, oldest first, until what is left fits; those that it retired. */
  pruneFrozen(request: PruneFrozen): PrunedRollout[] {
    const { olderThanMs, keepBytes, only, except = [] } = request;
    const before = this.#now() - olderThanMs;
    const pruned: PrunedRollout[] = [];
    let kept = 0;
    for (const { rid, rolloutId, updatedAt, bytes } of this.#sql.frozen.all()) {
      if (except.includes(rolloutId) || (only !== undefined && !only.includes(rolloutId))) continue;
      kept += bytes;
      const fits = keepBytes !== undefined && kept <= keepBytes;
      if (updatedAt > before || fits) continue;
      kept -= bytes;
      this.#sql.discard.run({ rid, now: this.#now() });
      this.#deleteRecords(rid);
      pruned.push({ rolloutId, bytes });
    }
    return pruned;
  }

  /** How many tombstones went. */
  sweepRetired(olderThanMs: number): number {
    return this.#sql.sweep.run(this.#now() - olderThanMs).changes;
  }

  #begin(rolloutId: string, callId: string): StoreAnswer {
    const rollout = this.#find(rolloutId) ?? this.#createIncomplete(rolloutId);
    const refused = this.#refusal(rollout);
    if (refused !== undefined) return refused;
    this.#sql.begin.run({ rid: rollout.rid, callId });
    return { answer: "ok", epoch: rollout.epoch };
  }

  #put({ row, epoch }: Put): StoreAnswer {
    const rollout = this.#findOrCreate(row.rolloutId, epoch);
    if (rollout === undefined) return { answer: "stale_epoch" };
    const { rid } = rollout;
    const callId = row.modelCallId;
    if (rollout.state === ROLLOUT_STATE.frozen) this.#mark(rid, callId, "PUT_AFTER_FREEZE"); // O2
    const refused = this.#refusal(rollout, epoch);
    if (refused !== undefined) return refused;

    const recorded = this.#sql.digestOf.get(rid, callId);
    if (recorded !== undefined && Buffer.compare(recorded.digest, row.digest) === 0) {
      return { answer: "ok", epoch: rollout.epoch }; // O1
    }
    if (recorded !== undefined || this.#isEnded(rid, callId)) {
      this.#mark(rid, callId, "RECORD_CONFLICT"); // O1
      return { answer: "conflict" };
    }
    if (epoch === "begun" && !this.#hasIntent(rid, callId)) return this.#late(rid, "stale_epoch"); // O8
    const baseId = this.#baseOf(rid, row);
    if (baseId === undefined) return { answer: "rebase" }; // O7
    const { base: _base, ...columns } = row;
    this.#sql.insertEntry.run({ ...columns, rid, baseId });
    this.#sql.closeIntent.run(rid, callId);
    this.#sql.bump.run({ rid, now: this.#now() });
    return { answer: "ok", epoch: rollout.epoch };
  }

  /** Null for a whole prompt; undefined when the rollout has no such base, or one that is too short. */
  #baseOf(rid: number, { base, prefixLength }: EntryRow): number | null | undefined {
    if (base === null) return null;
    const found = this.#sql.findBase.get(rid, base.modelCallId, base.digest);
    return found === undefined || found.length < prefixLength ? undefined : found.id;
  }

  /** O5. A recorded call has tokens, whatever became of its answer: its record stays and nothing is counted. */
  #end({ rolloutId, modelCallId, outcome, epoch }: End): StoreAnswer {
    const rollout = this.#findOrCreate(rolloutId, epoch);
    if (rollout === undefined) return { answer: "stale_epoch" };
    const refused = this.#refusal(rollout, epoch);
    if (refused !== undefined) return refused;
    const { rid } = rollout;
    if (this.#sql.digestOf.get(rid, modelCallId) === undefined) {
      const isKnown = this.#hasIntent(rid, modelCallId) || this.#isEnded(rid, modelCallId);
      if (epoch === "begun" && !isKnown) return this.#late(rid, "stale_epoch"); // O8
      const { changes } = this.#sql.end.run(rid, modelCallId, outcome);
      if (changes > 0) this.#sql.bump.run({ rid, now: this.#now() });
    }
    this.#sql.closeIntent.run(rid, modelCallId);
    return { answer: "ok", epoch: rollout.epoch };
  }

  /** Allowed after freeze: the version moves, so a drop of the older snapshot fails (O2). */
  #markLost(rolloutId: string, callId = ""): StoreAnswer {
    const rollout = this.#find(rolloutId) ?? this.#create(rolloutId);
    if (rollout.state === ROLLOUT_STATE.retired) {
      this.#sql.countLate.run(rollout.rid);
      return { answer: "retired" };
    }
    this.#mark(rollout.rid, callId, "LOST_CALL");
    return { answer: "ok", epoch: rollout.epoch };
  }

  #mark(rid: number, callId: string, reason: string): void {
    const { changes } = this.#sql.mark.run({ rid, now: this.#now() });
    if (changes > 0) this.#sql.lost.run(rid, callId, reason);
  }

  #find(rolloutId: string): RolloutRecord | undefined {
    return this.#sql.find.get(rolloutId);
  }

  /** Undefined when an epoch is given and no rollout is there any more: its tombstone was swept (O4). */
  #findOrCreate(rolloutId: string, epoch: CallEpoch): RolloutRecord | undefined {
    const rollout = this.#find(rolloutId);
    if (rollout !== undefined || epoch !== null) return rollout;
    return this.#createIncomplete(rolloutId);
  }

  #create(rolloutId: string): RolloutRecord {
    const epoch = this.#nextEpoch();
    const { lastInsertRowid } = this.#sql.create.run({ rolloutId, epoch, now: this.#now() });
    return { rid: Number(lastInsertRowid), epoch, state: ROLLOUT_STATE.open };
  }

  #createIncomplete(rolloutId: string): RolloutRecord {
    const rollout = this.#create(rolloutId);
    this.#mark(rollout.rid, "", "NOT_OPENED"); // O6
    return rollout;
  }

  #nextEpoch(): number {
    const row = this.#sql.nextEpoch.get();
    if (row === undefined) throw new Error("The epoch counter of the store is gone.");
    return row.value;
  }

  #hasIntent(rid: number, callId: string): boolean {
    return this.#sql.hasIntent.get(rid, callId) !== undefined;
  }

  #isEnded(rid: number, callId: string): boolean {
    return this.#sql.isEnded.get(rid, callId) !== undefined;
  }

  #deleteRecords(rid: number): void {
    for (const statement of this.#sql.deleteRecords) statement.run(rid);
  }

  /** Why a write of a call is refused: O3, O2, O4 in this order. A write that comes too late is counted. */
  #refusal(
    { rid, state, epoch: current }: RolloutRecord,
    epoch: CallEpoch = null,
  ): StoreAnswer | undefined {
    if (state === ROLLOUT_STATE.frozen) return { answer: "frozen" };
    const isRetired = state === ROLLOUT_STATE.retired;
    if (!isRetired && (typeof epoch !== "number" || epoch === current)) return undefined;
    return this.#late(rid, isRetired ? "retired" : "stale_epoch");
  }

  #late(rid: number, answer: "retired" | "stale_epoch"): StoreAnswer {
    this.#sql.countLate.run(rid);
    return { answer };
  }
}
