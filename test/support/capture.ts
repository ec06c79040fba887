/** Small records and temporary directories for tests of the capture layer. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { TokenCaptureStore, type TokenEntry } from "../../src/capture/index.js";

/** Removed when the test ends. */
export function temporaryDirectory(): string {
  const dir = mkdtempSync(join(tmpdir(), "corral-store-"));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

/** A store in its own directory, closed when the test ends. */
export function temporaryStore(
  options: { dir?: string; maxSizeBytes?: number; now?: () => number } = {},
): { store: TokenCaptureStore; dir: string } {
  const dir = options.dir ?? temporaryDirectory();
  const store = new TokenCaptureStore({ ...options, dir });
  onTestFinished(() => store.close());
  return { store, dir };
}

/** A valid record; the generation makes its payload. */
export function entryOf(
  rolloutId: string,
  callId: string,
  fields: Partial<TokenEntry> = {},
): TokenEntry {
  const generation = fields.generation_token_ids ?? Int32Array.of(7, 8, 9);
  return {
    schema_version: 1,
    rollout_id: rolloutId,
    model_call_id: callId,
    model: "policy",
    prompt_token_ids: Int32Array.of(1, 2, 3, 4),
    generation_token_ids: generation,
    generation_log_probs: Float64Array.from(generation, () => -0.1),
    output_items: [{ type: "message", id: `msg-${callId}` }],
    token_item_index: 0,
    created_at: 1000.5,
    ...fields,
  };
}

/** The code of the error that the action throws; undefined when it throws none. */
export async function codeOf(action: () => unknown): Promise<unknown> {
  try {
    await action();
    return undefined;
  } catch (error) {
    if (error instanceof Error && "code" in error) return error.code;
    throw error;
  }
}
