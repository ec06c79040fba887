import { z } from "zod";
import type { LearningRate, PolicySnapshot } from "../../embedded-policy/index.js";

/** How an embedded policy is trained. */
export interface PolicyTrainerOptions {
  /** @default 0.5 */
  readonly learningRate?: LearningRate;
  /** Weight of the entropy of each choice, nats. @default 0.02 */
  readonly entropyBonus?: number;
  /** Importance ratios are clipped to [1 − clip, 1 + clip]. @default 0.2 */
  readonly clip?: number;
  /** Weight of KL(policy ‖ policy at start) of each choice, nats. @default 0 */
  readonly klCoefficient?: number;
  /** Added to the standard deviation of a group's rewards. @default 0.1 */
  readonly deviationFloor?: number;
  /** Where training starts. Default: the untrained policy. */
  readonly initial?: PolicySnapshot;
  /** File that `save` wrote: wins over `initial` when it exists. */
  readonly resume?: string;
}

const amount = z.number().min(0);

const Options = z.strictObject({
  learningRate: z
    .union([
      z.number().gt(0),
      z.strictObject({ from: amount, to: amount, steps: z.number().int().min(1) }),
    ])
    .optional(),
  entropyBonus: amount.optional(),
  clip: z.number().gt(0).optional(),
  klCoefficient: amount.optional(),
  deviationFloor: z.number().gt(0).optional(),
  initial: z
    .custom((value) => typeof value === "object" && value !== null && "weights" in value, {
      error: "must be a policy snapshot",
    })
    .optional(),
  resume: z.string().min(1).optional(),
});

/** @throws RangeError naming the option that is wrong. */
export function parsePolicyTrainerOptions(value: unknown): PolicyTrainerOptions {
  const parsed = Options.safeParse(value);
  if (parsed.success) return parsed.data as PolicyTrainerOptions;
  const [issue] = parsed.error.issues;
  throw new RangeError(`policy trainer: ${issue?.path.join(".") || "options"}: ${issue?.message}`);
}
