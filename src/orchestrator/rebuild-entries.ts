/** `corral rebuild`: the pure builder over token records of a JSONL file, grouped by rollout. */
import {
  buildTrajectory,
  parseTokenEntry,
  type RebuiltResponse,
  rebuildResponse,
  type TokenCaptureMetrics,
  type TokenEntry,
} from "../capture/index.js";
import { isMapping } from "./config/merge.js";
import { readJsonLines } from "./jsonl.js";

/** One line that `corral rebuild` prints. */
export interface EntriesBuild {
  readonly rollout_id: string;
  /** Null when there is no chain. */
  readonly rebuilt_response: RebuiltResponse | null;
  readonly metrics: TokenCaptureMetrics;
  readonly mask_sample: boolean;
  readonly unresolved_retries: readonly string[];
  readonly error?: string;
}

interface Group {
  readonly entries: TokenEntry[];
  /** Records that were refused. */
  readonly refused: { readonly code: string; readonly detail: string }[];
}

/**
 * Builds each rollout of the file, in the order of their first records. A record that is refused masks its rollout.
 * @throws FILE_NOT_FOUND when the file cannot be read.
 */
export async function* rebuildEntries(file: string): AsyncGenerator<EntriesBuild> {
  for (const [rolloutId, { entries, refused }] of await readGroups(file)) {
    const build = buildTrajectory(entries, { rolloutId, extraMaskReasons: refused });
    const [first] = refused;
    const error = build.error ?? (first && { code: first.code, message: first.detail });
    yield {
      rollout_id: rolloutId,
      rebuilt_response: rebuildResponse(build),
      metrics: build.metrics,
      mask_sample: build.masked,
      unresolved_retries: build.unresolvedRetries,
      ...(error === undefined ? {} : { error: `${error.code}: ${error.message}` }),
    };
  }
}

async function readGroups(file: string): Promise<Map<string, Group>> {
  const groups = new Map<string, Group>();
  for await (const { line, value } of readJsonLines(file, "--entries")) {
    const id = isMapping(value) ? value["rollout_id"] : undefined;
    const rolloutId = typeof id === "string" ? id : "";
    const group = groups.get(rolloutId) ?? { entries: [], refused: [] };
    groups.set(rolloutId, group);
    try {
      group.entries.push(parseTokenEntry(value));
    } catch (error) {
      group.refused.push(refusal(error, line));
    }
  }
  return groups;
}

function refusal(error: unknown, line: number) {
  const code = error instanceof Error && "code" in error ? String(error.code) : "RECORD_INVALID";
  const reason = error instanceof Error ? error.message : String(error);
  return { code, detail: `line ${line}: ${reason}` };
}
