import type { TokenCaptureSnapshot, TokenEntry, TokenSource } from "../../src/capture/index.js";
import { CaptureError } from "../../src/capture/index.js";

interface Rollout {
  readonly entries: TokenEntry[];
  incomplete: boolean;
  version: number;
  state: "open" | "frozen" | "retired";
}

/** A `TokenSource` in memory that keeps the contract, with the writes a test needs. */
export class MemoryTokenSource implements TokenSource {
  readonly #rollouts = new Map<string, Rollout>();

  put(entry: TokenEntry): void {
    const rollout = this.#rollout(entry.rollout_id);
    if (rollout.state === "open") {
      rollout.entries.push(entry);
      return;
    }
    rollout.version += 1;
    rollout.incomplete = true;
  }

  state(rolloutId: string): Rollout["state"] | undefined {
    return this.#rollouts.get(rolloutId)?.state;
  }

  async freeze(rolloutId: string): Promise<TokenCaptureSnapshot> {
    const rollout = this.#rollout(rolloutId);
    if (rollout.state === "retired")
      throw new CaptureError("ROLLOUT_RETIRED", `${rolloutId} was dropped`);
    rollout.state = "frozen";
    return {
      rolloutId,
      entries: [...rollout.entries],
      incomplete: rollout.incomplete,
      incompleteReasons: rollout.incomplete ? ["LOST_CALL"] : [],
      failedCalls: 0,
      abortedCalls: 0,
      snapshotId: `snapshot-${rolloutId}`,
      version: rollout.version,
    };
  }

  async drop(
    rolloutId: string,
    snapshot: { readonly snapshotId: string; readonly version: number },
  ): Promise<boolean> {
    const rollout = this.#rollout(rolloutId);
    if (rollout.state !== "frozen" || rollout.version !== snapshot.version) return false;
    rollout.state = "retired";
    return true;
  }

  async close(): Promise<void> {}

  #rollout(rolloutId: string): Rollout {
    let rollout = this.#rollouts.get(rolloutId);
    if (rollout === undefined) {
      rollout = { entries: [], incomplete: false, version: 0, state: "open" };
      this.#rollouts.set(rolloutId, rollout);
    }
    return rollout;
  }
}
