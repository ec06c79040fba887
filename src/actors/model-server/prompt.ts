/**
 * Which ids a request's prompt has, and what it continues.
 *
 * M1. A prompt is RESOLVED only when it begins with the parent's own ids: because they were supplied, or because the
 *     engine reports so.
 * M2. Any doubt makes a new segment, UNRESOLVED with its reason; nothing is guessed, and nothing here fails a call.
 */
import {
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

/** The prompt of a captured call. `lineage` is null when the sink came without one. */
export async function continuedPrompt(
  conversation: Conversation,
  rolloutId: string,
  lineage: TokenLineage | null,
  engine: ChatEngine,
): Promise<PreparedPrompt> {
  const found = await parentOf(conversation, rolloutId, lineage);
  if (typeof found === "string") {
    const { ids } = await engine.prompt(conversation);
    if (found === ROOT) return { ids, resolution: "ROOT" };
    return { ids, resolution: "UNRESOLVED", reason: found }; // M2
  }
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

const ROOT = "ROOT";

interface Parent {
  readonly callId: string;
  readonly ids: Int32Array;
  readonly appended: readonly ConversationMessage[];
}

/** The recorded call that the request continues, `ROOT`, or why there is none. */
async function parentOf(
  conversation: Conversation,
  rolloutId: string,
  lineage: TokenLineage | null,
): Promise<Parent | string> {
  if (conversation.messages.every((message) => message.role !== "assistant")) return ROOT;
  if (lineage === null) return "NO_LINEAGE";
  let verdict: ParentVerdict;
  try {
    verdict = await resolveParent(conversation, rolloutId, lineage);
  } catch (error) {
    return `LINEAGE_FAILED: ${messageOf(error)}`;
  }
  if (verdict.resolution === "ROOT") return ROOT;
  if (verdict.resolution === "UNRESOLVED") return verdict.reason;
  const { parent, appended } = verdict;
  if (appended.length === 0) return "NOTHING_APPENDED";
  if (appended.some((message) => message.role === "assistant")) return "FOREIGN_TURN";
  try {
    const ids = await lineage.cumulativeIds(rolloutId, parent.modelCallId);
    if (ids.length === parent.cumLen) return { callId: parent.modelCallId, ids, appended };
    return `PARENT_LENGTH: ${ids.length} ids, recorded ${parent.cumLen}`;
  } catch (error) {
    return `PARENT_IDS_MISSING: ${messageOf(error)}`;
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
