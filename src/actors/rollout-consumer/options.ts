import { z } from "zod";
import { CALL_PURPOSES, type FinalizeOptions, type TokenSource } from "../../capture/index.js";
import type { ActorRef } from "../../runtime/index.js";
import type { RolloutLedger } from "../rollout.js";
import { RolloutConsumerError } from "./errors.js";
import type { PolicyName } from "./row.js";

/** A model server as the consumer needs it. */
export interface RolloutSealer {
  /** Contract: no call of the rollout is answered after it resolves. */
  sealRollout(rolloutId: string): RolloutLedger | Promise<RolloutLedger>;
}

export type RowOptions = Pick<FinalizeOptions, "delivery" | "outputForm" | "trainedPurposes">;

export interface RolloutConsumerOptions {
  readonly journalPath: string;
  /**
   * The JSONL of rows; made when it is not there, continued when it is. Without it rows go to a trainer in the caller's
   * thread, which accepts or rejects them.
   */
  readonly outPath?: string;
  /** Where the records are; without it no row is rebuilt. */
  readonly store?: ActorRef<Pick<TokenSource, "freeze" | "drop">>;
  /** Every model server of the run. */
  readonly servers: readonly ActorRef<RolloutSealer>[];
  /** False: rows keep id and text, and nothing is frozen or dropped. */
  readonly rebuildResponse: boolean;
  /** What a row holds. Default: the main chain, in full form. */
  readonly rows?: RowOptions;
  /** Named in every row, so that a row can be scored again. */
  readonly policy?: PolicyName;
}

const isRef = (value: unknown): boolean =>
  typeof value === "object" && value !== null && "call" in value;

const Options = z.strictObject({
  journalPath: z.string().min(1),
  outPath: z.string().min(1).optional(),
  store: z.custom(isRef, "must be an actor reference").optional(),
  servers: z.array(z.custom(isRef, "must be an actor reference")),
  rebuildResponse: z.boolean(),
  rows: z
    .strictObject({
      delivery: z.enum(["main", "all"]).optional(),
      outputForm: z.enum(["full", "delta"]).optional(),
      trainedPurposes: z.array(z.enum(CALL_PURPOSES)).optional(),
    })
    .optional(),
  policy: z.strictObject({ kind: z.string(), checkpoint_digest: z.string().optional() }).optional(),
});

/** @throws OPTIONS_INVALID naming the option. */
export function parseRolloutConsumerOptions(value: unknown): RolloutConsumerOptions {
  const parsed = Options.safeParse(value);
  if (parsed.success) return parsed.data as RolloutConsumerOptions;
  const [issue] = parsed.error.issues;
  const option = issue?.path.join(".") || "options";
  throw new RolloutConsumerError(
    "OPTIONS_INVALID",
    `rollout consumer: ${option}: ${issue?.message}`,
  );
}
