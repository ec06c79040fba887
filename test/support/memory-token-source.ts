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

/** A rollout of two calls, the second extending the first; the last one answers `text`. */
export function twoCalls(rolloutId: string, text = "done"): TokenEntry[] {
  const first = Int32Array.of(1, 2, 3);
  const second = Int32Array.of(1, 2, 3, 10, 11, 4);
  return [
    call(rolloutId, "a", first, Int32Array.of(10, 11), "working"),
    call(rolloutId, "b", second, Int32Array.of(12, 13, 14), text),
  ];
}

function call(
  rolloutId: string,
  name: string,
  prompt: Int32Array,
  generation: Int32Array,
  text: string,
): TokenEntry {
  return {
    schema_version: 1,
    rollout_id: rolloutId,
    model_call_id: `${rolloutId}-${name}`,
    model: "policy",
    prompt_token_ids: prompt,
    generation_token_ids: generation,
    generation_log_probs: new Float64Array(generation.length).fill(-0.5),
    output_items: [
      { type: "message", role: "assistant", content: [{ type: "output_text", text }] },
    ],
    token_item_index: 0,
    created_at: name === "a" ? 1 : 2,
    served_message_id: `msg-${rolloutId}-${name}`,
    served_text: text,
    finish_reason: "stop",
  };
}
