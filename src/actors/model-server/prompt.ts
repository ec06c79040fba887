/**
 * Which ids a request's prompt has, and what it continues.
 *
 * M1. A continuation is the parent's own ids plus the ids of what follows: the policy's tokens are never re-encoded.
 * M2. Any doubt makes a new segment, UNRESOLVED with its reason; nothing is guessed, and nothing here fails a call.
 */
import {
  type Conversation,
  type ParentResolution,
  type ParentVerdict,
  resolveParent,
  type TokenLineage,
} from "../../capture/index.js";
import type { Renderer } from "./renderers/renderer.js";

export interface Prompt {
  /** int32[P]. */
  readonly ids: Int32Array;
  readonly resolution: ParentResolution;
  readonly parentCallId?: string;
  readonly reason?: string;
}

/** The prompt of a captured call. `lineage` is null when the sink came without one. */
export async function continuedPrompt(
  conversation: Conversation,
  rolloutId: string,
  lineage: TokenLineage | null,
  renderer: Renderer,
): Promise<Prompt> {
  const continued = await continuation(conversation, rolloutId, lineage, renderer);
  if (typeof continued === "object") return continued;
  const ids = await renderer.promptIds(conversation);
  if (continued === ROOT) return { ids, resolution: "ROOT" };
  return { ids, resolution: "UNRESOLVED", reason: continued }; // M2
}

const ROOT = "ROOT";

/** The prompt that extends its parent, `ROOT`, or why there is no parent. */
async function continuation(
  conversation: Conversation,
  rolloutId: string,
  lineage: TokenLineage | null,
  renderer: Renderer,
): Promise<Prompt | string> {
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
  return joinParent(verdict, rolloutId, lineage, renderer);
}

/** The joined prompt, or why the parent cannot be continued. */
async function joinParent(
  verdict: Extract<ParentVerdict, { resolution: "RESOLVED" }>,
  rolloutId: string,
  lineage: TokenLineage,
  renderer: Renderer,
): Promise<Prompt | string> {
  const { parent, appended } = verdict;
  if (appended.length === 0) return "NOTHING_APPENDED";
  if (appended.some((message) => message.role === "assistant")) return "FOREIGN_TURN";
  let past: Int32Array;
  try {
    past = await lineage.cumulativeIds(rolloutId, parent.modelCallId);
  } catch (error) {
    return `PARENT_IDS_MISSING: ${messageOf(error)}`;
  }
  if (past.length !== parent.cumLen)
    return `PARENT_LENGTH: ${past.length} ids, recorded ${parent.cumLen}`;
  if (!renderer.endsTurn(past)) return "PARENT_TRUNCATED";
  const next = await renderer.continuationIds(appended);
  const ids = new Int32Array(past.length + next.length);
  ids.set(past); // M1
  ids.set(next, past.length);
  return { ids, resolution: "RESOLVED", parentCallId: parent.modelCallId };
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
