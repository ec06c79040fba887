/** Random lives of two rollouts against a model in memory: answers, versions, reasons, tombstones and epochs agree. */
import { join } from "node:path";
import Database from "better-sqlite3";
import fc from "fast-check";
import { expect, test } from "vitest";
import {
  type CallEpoch,
  encodeEntry,
  isCaptureError,
  STORE_FILE_NAME,
  type TokenCaptureSnapshot,
  TokenCaptureStore,
} from "../../../src/capture/index.js";
import { entryOf, temporaryDirectory } from "../../support/capture.js";

interface Rollout {
  epoch: number;
  state: "open" | "frozen" | "retired";
  version: number;
  intents: Set<string>;
  entries: Map<string, number>;
  ended: Map<string, string>;
  reasons: Set<string>;
  /** A freeze has given out its snapshot. */
  isHeld: boolean;
}

/** What the store must do, with plain maps. Each method returns the answer that is expected. */
class Model {
  epochs = 0;
  rollouts = new Map<string, Rollout>();

  open(id: string) {
    return this.rollouts.has(id) ? "ROLLOUT_EXISTS" : this.#create(id).epoch;
  }

  reset(id: string) {
    const old = this.rollouts.get(id);
    if (old?.state === "frozen") return "ROLLOUT_FROZEN";
    const fresh = this.#create(id);
    if (old !== undefined) fresh.version = old.version + 1;
    return fresh.epoch;
  }

  begin(id: string, call: string) {
    const rollout = this.rollouts.get(id) ?? this.#createIncomplete(id);
    if (rollout.state !== "open") return rollout.state;
    if (!rollout.entries.has(call) && !rollout.ended.has(call)) rollout.intents.add(call);
    return rollout.epoch;
  }

  put(id: string, call: string, payload: number, epoch: CallEpoch) {
    const rollout = this.#reached(id, epoch);
    if (rollout === undefined) return "stale_epoch";
    if (rollout.state === "frozen") this.#mark(rollout, "PUT_AFTER_FREEZE");
    if (rollout.state !== "open") return rollout.state;
    if (typeof epoch === "number" && epoch !== rollout.epoch) return "stale_epoch";
    if (rollout.entries.get(call) === payload) return rollout.epoch;
    if (rollout.entries.has(call) || rollout.ended.has(call)) {
      this.#mark(rollout, "RECORD_CONFLICT");
      return "conflict";
    }
    if (epoch === "begun" && !rollout.intents.has(call)) return "stale_epoch";
    rollout.entries.set(call, payload);
    rollout.intents.delete(call);
    rollout.version += 1;
    return rollout.epoch;
  }

  end(id: string, call: string, outcome: string, epoch: CallEpoch) {
    const rollout = this.#reached(id, epoch);
    if (rollout === undefined) return "stale_epoch";
    if (rollout.state !== "open") return rollout.state;
    if (typeof epoch === "number" && epoch !== rollout.epoch) return "stale_epoch";
    if (!rollout.entries.has(call) && !rollout.ended.has(call)) {
      if (epoch === "begun" && !rollout.intents.has(call)) return "stale_epoch";
      rollout.ended.set(call, outcome);
      rollout.version += 1;
    }
    rollout.intents.delete(call);
    return rollout.epoch;
  }

  mark(id: string) {
    const rollout = this.rollouts.get(id) ?? this.#create(id);
    if (rollout.state === "retired") return "retired";
    this.#mark(rollout, "LOST_CALL");
    return rollout.epoch;
  }

  freeze(id: string) {
    const rollout = this.rollouts.get(id) ?? this.#create(id);
    if (rollout.state === "retired") return "ROLLOUT_RETIRED";
    if (rollout.state === "open") rollout.version += 1;
    rollout.state = "frozen";
    rollout.isHeld = true;
    const outcomes = [...rollout.ended.values()];
    const reasons = [...rollout.reasons, ...(rollout.intents.size > 0 ? ["DANGLING_INTENT"] : [])];
    return {
      calls: [...rollout.entries.keys()].sort(),
      failed: outcomes.filter((outcome) => outcome === "failed").length,
      aborted: outcomes.filter((outcome) => outcome === "aborted").length,
      reasons: reasons.sort(),
      incomplete: reasons.length > 0,
      version: rollout.version,
    };
  }

  drop(id: string, version: number, sameSnapshot: boolean) {
    const rollout = this.rollouts.get(id);
    if (rollout?.state !== "frozen" || !rollout.isHeld || !sameSnapshot) return false;
    if (rollout.version !== version) return false;
    rollout.state = "retired";
    return true;
  }

  abandon(id: string) {
    const rollout = this.rollouts.get(id) ?? this.#create(id);
    if (rollout.state === "retired") return;
    this.#mark(rollout, "ABANDONED");
    if (rollout.state === "open") rollout.version += 1;
    rollout.state = "frozen";
  }

  abandonOpen() {
    const open = [...this.rollouts].filter(([, rollout]) => rollout.state === "open");
    for (const [, rollout] of open) this.#mark(rollout, "ABANDONED");
    return open.map(([id]) => id).sort();
  }

  sweep() {
    const retired = [...this.rollouts].filter(([, rollout]) => rollout.state === "retired");
    for (const [id] of retired) this.rollouts.delete(id);
    return retired.length;
  }

  #reached(id: string, epoch: CallEpoch) {
    const rollout = this.rollouts.get(id);
    return rollout === undefined && epoch === null ? this.#createIncomplete(id) : rollout;
  }

  #create(id: string): Rollout {
    this.epochs += 1;
    const rollout: Rollout = {
      epoch: this.epochs,
      state: "open",
      version: 0,
      intents: new Set(),
      entries: new Map(),
      ended: new Map(),
      reasons: new Set(),
      isHeld: false,
    };
    this.rollouts.set(id, rollout);
    return rollout;
  }

  #createIncomplete(id: string): Rollout {
    const rollout = this.#create(id);
    this.#mark(rollout, "NOT_OPENED");
    return rollout;
  }

  #mark(rollout: Rollout, reason: string) {
    rollout.reasons.add(reason);
    rollout.version += 1;
  }
}

const id = fc.constantFrom("r0", "r1");
const call = fc.constantFrom("c0", "c1");
/** Not known, or one of those given so far, counted back from the newest; a write that names one gives no new one. */
const epochBack = fc.oneof(
  fc.constantFrom(null, "begun" as const),
  fc.constant("begun" as const),
  fc.nat(3),
  fc.nat(3),
);
const step = fc.oneof(
  fc.record({ do: fc.constant("open" as const), id }),
  fc.record({ do: fc.constant("reset" as const), id }),
  fc.record({ do: fc.constant("begin" as const), id, call }),
  fc.record({ do: fc.constant("put" as const), id, call, payload: fc.nat(1), epochBack }),
  fc.record({ do: fc.constant("put" as const), id, call, payload: fc.nat(1), epochBack }),
  fc.record({ do: fc.constant("put" as const), id, call, payload: fc.nat(1), epochBack }),
  fc.record({ do: fc.constant("put" as const), id, call, payload: fc.nat(1), epochBack }),
  fc.record({
    do: fc.constant("end" as const),
    id,
    call,
    outcome: fc.constantFrom("failed" as const, "aborted" as const),
    epochBack,
  }),
  fc.record({ do: fc.constant("mark" as const), id, call }),
  fc.record({ do: fc.constant("freeze" as const), id }),
  // From the last freeze of either rollout: stale, foreign and, mostly, exact snapshots.
  id.map((same) => ({ do: "drop" as const, id: same, of: same })),
  id.map((same) => ({ do: "drop" as const, id: same, of: same })),
  fc.record({ do: fc.constant("drop" as const), id, of: id }),
  fc.record({ do: fc.constant("abandon" as const), id }),
  fc.record({ do: fc.constant("abandonOpen" as const) }),
  fc.record({ do: fc.constant("sweep" as const) }),
);
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

test("O1 O2 O3 O4 O5 O6 O8 O9 any life of two rollouts goes as the model says", {
  timeout: 60_000,
}, async () => {
  const dir = temporaryDirectory();
  const seen: string[] = [];
  let run = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 30, maxLength: 60 }), async (steps) => {
      run += 1;
      const runDir = join(dir, String(run));
      // Time stands still but for the sweep, which looks from the far future.
      let now = 1000;
      const store = new TokenCaptureStore({ dir: runDir, now: () => now });
      const file = new Database(join(runDir, STORE_FILE_NAME));
      file.pragma("synchronous=OFF");
      const model = new Model();
      const snapshots = new Map<string, TokenCaptureSnapshot>();
      try {
        for (const action of steps) {
          const expected = expectedOf(model, action, snapshots);
          now = action.do === "sweep" ? 1e12 : 1000;
          const actual = await actualOf(store, action, snapshots, model.epochs);
          expect(actual, JSON.stringify(action)).toEqual(expected);
          if (action.do === "put" && action.epochBack === "begun")
            seen.push(`begun:${typeof expected === "number" ? "stored" : expected}`);
          seen.push(`${action.do}:${typeof expected === "string" ? expected : typeof expected}`);
          expect(rowsOf(file)).toEqual(rowsOfModel(model));
        }
      } finally {
        file.close();
        await store.close();
      }
    }),
    { numRuns: 100 },
  );
  // The test is worth something only if the rare answers occurred.
  for (const answer of ["conflict", "frozen", "retired", "stale_epoch"]) {
    expect(seen).toContain(`put:${answer}`);
  }
  expect(seen).toContain("begun:stored");
  expect(seen).toContain("begun:stale_epoch");
  expect(seen).toContain("reset:ROLLOUT_FROZEN");
  expect(seen).toContain("freeze:ROLLOUT_RETIRED");
});

function epochOf(back: CallEpoch, epochs: number): CallEpoch {
  return typeof back === "number" ? Math.max(0, epochs - back) : back;
}

function expectedOf(model: Model, action: Step, snapshots: Map<string, TokenCaptureSnapshot>) {
  switch (action.do) {
    case "open":
      return model.open(action.id);
    case "reset":
      return model.reset(action.id);
    case "begin":
      return model.begin(action.id, action.call);
    case "put":
      return model.put(
        action.id,
        action.call,
        action.payload,
        epochOf(action.epochBack, model.epochs),
      );
    case "end":
      return model.end(
        action.id,
        action.call,
        action.outcome,
        epochOf(action.epochBack, model.epochs),
      );
    case "mark":
      return model.mark(action.id);
    case "freeze":
      return model.freeze(action.id);
    case "drop":
      return model.drop(action.id, snapshots.get(action.of)?.version ?? 0, action.id === action.of);
    case "abandon":
      return model.abandon(action.id);
    case "abandonOpen":
      return model.abandonOpen();
    case "sweep":
      return model.sweep();
  }
}

async function actualOf(
  store: TokenCaptureStore,
  action: Step,
  snapshots: Map<string, TokenCaptureSnapshot>,
  epochs: number,
): Promise<unknown> {
  try {
    switch (action.do) {
      case "open":
        return (await store.open(action.id)).epoch;
      case "reset":
        return (await store.reset(action.id)).epoch;
      case "begin":
      case "put":
      case "end":
      case "mark": {
        const answer = await store.write(operationOf(action, epochs));
        return answer.answer === "ok" ? answer.epoch : answer.answer;
      }
      case "freeze": {
        const snapshot = await store.freeze(action.id);
        snapshots.set(action.id, snapshot);
        return {
          calls: snapshot.entries.map((entry) => entry.model_call_id).sort(),
          failed: snapshot.failedCalls,
          aborted: snapshot.abortedCalls,
          reasons: snapshot.incompleteReasons,
          incomplete: snapshot.incomplete,
          version: snapshot.version,
        };
      }
      case "drop":
        return await store.drop(
          action.id,
          snapshots.get(action.of) ?? { snapshotId: "", version: 0 },
        );
      case "abandon":
        return await store.abandon(action.id);
      case "abandonOpen":
        return (await store.abandonOpen()).sort();
      case "sweep":
        return await store.sweepRetired(0);
    }
  } catch (error) {
    if (isCaptureError(error)) return error.code;
    throw error;
  }
}

function operationOf(action: Extract<Step, { call: string }>, epochs: number) {
  const names = { rolloutId: action.id, modelCallId: action.call };
  switch (action.do) {
    case "begin":
      return { kind: "begin" as const, ...names };
    case "mark":
      return { kind: "mark" as const, ...names };
    case "end": {
      const epoch = epochOf(action.epochBack, epochs);
      return { kind: "end" as const, ...names, outcome: action.outcome, epoch };
    }
    case "put": {
      const fields = { generation_token_ids: Int32Array.of(action.payload) };
      const row = encodeEntry(entryOf(action.id, action.call, fields));
      return { kind: "put" as const, row, epoch: epochOf(action.epochBack, epochs) };
    }
  }
}

function rowsOf(file: Database.Database): unknown[] {
  return file
    .prepare(
      "SELECT rollout_id AS id, epoch, state, version, incomplete FROM rollout ORDER BY rollout_id",
    )
    .all();
}

function rowsOfModel(model: Model): unknown[] {
  const states = { open: 0, frozen: 1, retired: 2 };
  return [...model.rollouts]
    .map(([rolloutId, rollout]) => ({
      id: rolloutId,
      epoch: rollout.epoch,
      state: states[rollout.state],
      version: rollout.version,
      incomplete: rollout.reasons.size > 0 ? 1 : 0,
    }))
    .sort((a, b) => (a.id < b.id ? -1 : 1));
}
