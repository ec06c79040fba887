/** What a build is made from and what it is. */
import type { MaskReason, TokenCaptureMetrics } from "./metrics.js";
import type { CallPurpose, PurposeOverride } from "./purpose.js";
import type { BuildError } from "./record-problems.js";
import type { TokenEntry } from "./records.js";
import type { Terminal } from "./terminal.js";

/** `main`: the chain of the final answer. `all`: every chain is a trajectory of its own. */
export type DeliveryMode = "main" | "all";

export interface BuildOptions {
  readonly rolloutId: string;
  /** Default `main`. */
  readonly delivery?: DeliveryMode;
  /** The store lost a call. Default false. */
  readonly incomplete?: boolean;
  readonly incompleteReasons?: readonly string[];
  readonly failedCalls?: number;
  readonly abortedCalls?: number;
  readonly terminal?: Terminal;
  /** Calls whose answer did not fully reach the harness. It may exclude a call, never keep one. */
  readonly undeliveredCallIds?: Iterable<string>;
  readonly purposeOf?: PurposeOverride;
  /** Purposes whose trajectories are not masked in `all`. Default main, subagent, compaction. */
  readonly trainedPurposes?: readonly CallPurpose[];
  readonly extraMaskReasons?: readonly MaskReason[];
}

/** A chain of `all` beside the one that is shown. */
export interface SideTrajectory {
  /** Calls it owns; the prompt of the first holds what earlier trajectories own. The records themselves. */
  readonly chain: readonly TokenEntry[];
  /** That of its first call. */
  readonly purpose: CallPurpose;
  readonly maskReasons: readonly MaskReason[];
}

export interface TrajectoryBuild {
  readonly rolloutId: string;
  /** The chain that is shown, root first; empty when there is none. The records' own arrays, not copies. */
  readonly chain: readonly TokenEntry[];
  /** Empty but in `all`. */
  readonly others: readonly SideTrajectory[];
  readonly metrics: TokenCaptureMetrics;
  readonly masked: boolean;
  readonly unresolvedRetries: readonly string[];
  /** Call id → purpose. */
  readonly purposes: ReadonlyMap<string, CallPurpose>;
  readonly error?: BuildError;
}
