/**
 * Which ids a request's prompt has, and what it continues.
 *
 * M1. A prompt is RESOLVED only when it begins with the parent's own ids: because they were supplied, or because the
 *     engine reports so.
 * M2. Any doubt makes a new segment, UNRESOLVED with its reason; nothing is guessed, and nothing here fails a call.
 */
import {
  type Compaction,
  type Conversation,
  type ConversationMessage,
  type ParentResolution,
  type ParentVerdict,
  resolveParent,
  type TokenLineage,
} from "../../capture/index.js";
import { type ChatEngine, firstDifference, type TokenGeneration } from "./engines/engine.js";

export interface Prompt {
  /** int32[P]. */
  readonly ids: Int32Array;
  readonly resolution: ParentResolution;
  readonly parentCallId?: string;
  readonly reason?: string;
}

/** A prompt before the engine has answered. */
export interface PreparedPrompt extends Omit<Prompt, "ids"> {
  /** int32[P]; null when only the engine's answer tells them. */
  readonly ids: Int32Array | null;
  /** int32[n]: what a prompt that the engine tells must begin with to be RESOLVED. */
  readonly parentIds?: Int32Array;
}

/** What a rollout's calls may continue. */
export interface RolloutHistory {
  readonly id: string;
  /** Its compaction calls, as far as this worker served them. */
  readonly compactions: readonly Compaction[];
}

/** The prompt of a captured call. `lineage` is null when the sink came without one. */
export async function continuedPrompt(
  conversation: Conversation,
  rollout: RolloutHistory,
  lineage: TokenLineage | null,
  engine: ChatEngine,
): Promise<PreparedPrompt> {
  const found = await parentOf(conversation, rollout, lineage);
  if ("resolution" in found) return { ids: (await engine.prompt(conversation)).ids, ...found }; // M2
  const { ids, refusal } = await engine.prompt(conversation, found);
  if (refusal !== undefined) return { ids, resolution: "UNRESOLVED", reason: refusal };
  const resolved = { ids, resolution: "RESOLVED", parentCallId: found.callId } as const;
  return ids === null ? { ...resolved, parentIds: found.ids } : resolved;
}

/**
 * The prompt as it was, now that the engine has answered. M1.
 * @throws RangeError when nobody knows the prompt's ids.
 */
export function settledPrompt(prepared: PreparedPrompt, generation: TokenGeneration): Prompt {
  const { parentIds, ...prompt } = prepared;
  if (prompt.ids !== null) return { ...prompt, ids: prompt.ids };
  if (generation.promptIds === undefined) throw new RangeError("engine sent no prompt ids");
  const { promptIds } = generation;
  const ids = promptIds instanceof Int32Array ? promptIds : Int32Array.from(promptIds);
  const at =
    parentIds === undefined ? null : firstDifference(ids.subarray(0, parentIds.length), parentIds);
  if (at === null) return { ...prompt, ids };
  const reason = historyRewritten(at, ids, parentIds);
  return { ids, resolution: "UNRESOLVED", reason };
}

/** Why a prompt that was rendered again is not its parent's continuation. */
export function historyRewritten(
  at: number,
  ids: ArrayLike<number>,
  parentIds?: ArrayLike<number>,
): string {
  return `HISTORY_REWRITTEN: token ${at} is ${String(ids[at])}, the parent's is ${String(parentIds?.[at])}`;
}

interface Parent {
  readonly callId: string;
  readonly ids: Int32Array;
  readonly appended: readonly ConversationMessage[];
}

/** A new segment. */
type Segment = Exclude<ParentVerdict, { readonly resolution: "RESOLVED" }> | Unresolved;

interface Unresolved {
  readonly resolution: "UNRESOLVED";
  readonly reason: string;
}

function unresolved(reason: string): Unresolved {
  return { resolution: "UNRESOLVED", reason };
}

/** The recorded call that the request continues, or why there is none. */
async function parentOf(
  conversation: Conversation,
  { id, compactions }: RolloutHistory,
  lineage: TokenLineage | null,
): Promise<Parent | Segment> {
  if (conversation.messages.every((message) => message.role !== "assistant"))
    return { resolution: "ROOT" };
  if (lineage === null) return unresolved("NO_LINEAGE");
  let verdict: ParentVerdict;
  try {
    verdict = await resolveParent(conversation, id, lineage, compactions);
  } catch (error) {
    return unresolved(`LINEAGE_FAILED: ${messageOf(error)}`);
  }
  if (verdict.resolution !== "RESOLVED") return verdict;
  const { parent, appended } = verdict;
  if (appended.length === 0) return unresolved("NOTHING_APPENDED");
  if (appended.some((message) => message.role === "assistant")) return unresolved("FOREIGN_TURN");
  try {
    const ids = await lineage.cumulativeIds(id, parent.modelCallId);
    if (ids.length === parent.cumLen) return { callId: parent.modelCallId, ids, appended };
    return unresolved(`PARENT_LENGTH: ${ids.length} ids, recorded ${parent.cumLen}`);
  } catch (error) {
    return unresolved(`PARENT_IDS_MISSING: ${messageOf(error)}`);
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
