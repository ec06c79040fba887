import type { FinalizedCapture } from "../../capture/index.js";
import type { FinishedRollout, RolloutLedger, RolloutRow, RolloutSlot } from "../rollout.js";
import type { SlotAttempt } from "./journal.js";
import type { OpenPass } from "./pass-book.js";

/** What an earlier run left. */
export interface Recovery {
  /** Every slot that has a row, the ones just re-delivered included. */
  readonly delivered: readonly RolloutSlot[];
  readonly attempts: readonly SlotAttempt[];
  readonly redelivered: readonly DeliveryReport[];
  /** Finished rollouts that wait for a trainer: `redeliver` gives their rows. */
  readonly pending: readonly Pick<FinishedRollout, "slot" | "rolloutId" | "task">[];
  /** Passes of a trainer that can be gone on with. */
  readonly passes: readonly OpenPass[];
  /** The highest pass number given out. */
  readonly lastPass: number;
}

/** What came of a delivery, without the tokens. */
export interface DeliveryReport {
  readonly rolloutId: string;
  readonly slot: RolloutSlot;
  /** A trainer must skip it. */
  readonly masked: boolean;
  /** Codes. */
  readonly maskReasons: readonly string[];
  /** The row has metrics. */
  readonly rebuilt: boolean;
  /** Codes of the row's own warnings. */
  readonly warnings: readonly string[];
  readonly reward: number | null;
  /** Model calls: recorded ones of a captured rollout, else those that the servers counted. */
  readonly calls: number;
  readonly chains: number;
  /** Delivered of captured generated tokens; 0 when nothing was rebuilt. */
  readonly deliveredFraction: number;
  /** Generated tokens. */
  readonly tokensCaptured: number;
  readonly error?: { readonly code: string; readonly message: string };
  /** Calls that each server started, in the order of the servers; 0 when it could not say. */
  readonly workerCalls: readonly number[];
  /** The row, when a trainer takes it and no file does. */
  readonly row?: RolloutRow;
}

/** The report of a row that is durable. */
export function deliveredReport(
  finished: FinishedRollout,
  row: RolloutRow,
  ledgers: readonly (RolloutLedger | null)[],
  built: FinalizedCapture | null,
): DeliveryReport {
  const workerCalls = ledgers.map((ledger) => ledger?.started ?? 0);
  const metrics = built?.metrics ?? null;
  return {
    rolloutId: finished.rolloutId,
    slot: finished.slot,
    masked: row.mask_sample === true,
    maskReasons: metrics?.mask_reasons.map((reason) => reason.code) ?? [],
    rebuilt: metrics !== null,
    warnings: metrics?.warnings ?? [],
    reward: finished.outcome.reward,
    calls: metrics?.n_calls ?? workerCalls.reduce((sum, calls) => sum + calls, 0),
    chains: metrics?.chains ?? 0,
    deliveredFraction: metrics?.delivered_fraction ?? 0,
    tokensCaptured: metrics?.generated_tokens_captured ?? 0,
    ...(row.error === undefined ? {} : { error: row.error }),
    workerCalls,
  };
}

/** The report of a rollout that has no row. */
export function undeliveredReport(
  finished: FinishedRollout,
  ledgers: readonly (RolloutLedger | null)[],
  message: string,
): DeliveryReport {
  const workerCalls = ledgers.map((ledger) => ledger?.started ?? 0);
  return {
    rolloutId: finished.rolloutId,
    slot: finished.slot,
    masked: true,
    maskReasons: ["DELIVERY_ERROR"],
    rebuilt: false,
    warnings: [],
    reward: finished.outcome.reward,
    calls: workerCalls.reduce((sum, calls) => sum + calls, 0),
    chains: 0,
    deliveredFraction: 0,
    tokensCaptured: 0,
    error: { code: "DELIVERY_ERROR", message },
    workerCalls,
  };
}
