/** The lines of a journal. */
import { z } from "zod";
import { Task } from "../rollout.js";

const Slot = z.strictObject({
  pass: z.number().int().nonnegative(),
  taskIndex: z.number().int().nonnegative(),
  rolloutIndex: z.number().int().nonnegative(),
});

const Finished = z.looseObject({
  slot: Slot,
  attempt: z.number().int().nonnegative(),
  rolloutId: z.string(),
  captured: z.boolean(),
  task: Task,
  model: z.string(),
  outcome: z.looseObject({ reward: z.number().nullable(), finalText: z.string().nullable() }),
});

const Ledger = z.looseObject({
  started: z.number(),
  recordedCallIds: z.array(z.string()),
  undeliveredCallIds: z.array(z.string()).optional(),
  failed: z.number(),
  aborted: z.number(),
  captureLost: z.number(),
  workerIndex: z.number(),
  workerGeneration: z.number(),
});

/** The snapshot that may be dropped when its row is durable elsewhere. */
const Evidence = z.strictObject({ snapshotId: z.string(), version: z.number().int() });
export type Evidence = z.infer<typeof Evidence>;

/** One walk over tasks. */
const Pass = z.strictObject({
  /** From 1. */
  pass: z.number().int().positive(),
  /** sha256, hex, of the tasks and what is asked of them: a start that asks the same goes on with the pass. */
  digest: z.string(),
  /** Slots of the pass. */
  slots: z.number().int().nonnegative(),
});
export type Pass = z.infer<typeof Pass>;

export const JournalRecord = z.discriminatedUnion("state", [
  z.strictObject({
    state: z.literal("started"),
    slot: Slot,
    attempt: z.number().int().nonnegative(),
    rolloutId: z.string(),
  }),
  z.strictObject({
    state: z.literal("finished"),
    finished: Finished,
    ledgers: z.array(Ledger.nullable()),
  }),
  z.strictObject({
    state: z.literal("handed_off"),
    slot: Slot,
    rolloutId: z.string(),
    evidence: Evidence.optional(),
  }),
  z.strictObject({ state: z.literal("accepted"), slot: Slot, rolloutId: z.string() }),
  z.strictObject({
    state: z.literal("rejected"),
    slot: Slot,
    rolloutId: z.string(),
    reason: z.string(),
  }),
  z.strictObject({ state: z.literal("pass"), ...Pass.shape }),
  z.strictObject({ state: z.literal("pass_left"), pass: Pass.shape.pass }),
]);
