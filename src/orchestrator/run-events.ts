/** What a run tells while it runs. Plain data. */
import type { RolloutFailure, RolloutSlot } from "../actors/index.js";

export type RunEvent =
  | {
      readonly kind: "run_start";
      readonly runId: string;
      readonly dir: string;
      /** Rollouts of the whole run. */
      readonly rollouts: number;
      /** Rows that `--out` held already. */
      readonly delivered: number;
      readonly resumed: boolean;
    }
  | { readonly kind: "warning"; readonly message: string }
  | {
      readonly kind: "rollout_start";
      readonly slot: RolloutSlot;
      readonly rolloutId: string;
      readonly attempt: number;
    }
  | {
      /** The attempt failed and a new one follows. */
      readonly kind: "rollout_retry";
      readonly slot: RolloutSlot;
      readonly rolloutId: string;
      readonly failure: RolloutFailure;
    }
  | {
      /** The run stops and this rollout leaves no row; a later start runs it again. */
      readonly kind: "rollout_cancelled";
      readonly slot: RolloutSlot;
      readonly rolloutId: string;
    }
  | {
      /** The row is durable. */
      readonly kind: "rollout_end";
      readonly slot: RolloutSlot;
      readonly rolloutId: string;
      readonly attempt: number;
      readonly reward: number | null;
      readonly masked: boolean;
      readonly maskReasons: readonly string[];
      readonly failure: RolloutFailure | null;
      readonly captured: boolean;
      /** The row has `_ng_token_capture`. */
      readonly rebuilt: boolean;
      /** Codes of `_ng_token_capture.warnings`. */
      readonly warnings: readonly string[];
      /** Model calls: recorded ones of a captured rollout, else those that the servers counted. */
      readonly calls: number;
      readonly generatedTokens: number;
      readonly wallMs: number;
    };

export type RunEventListener = (event: RunEvent) => void;
