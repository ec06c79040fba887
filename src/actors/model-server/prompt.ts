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
  const verdict = await parentVerdict(conversation, rolloutId, lineage);
  if (verdict.resolution === "ROOT")
    return { ids: await renderer.promptIds(conversation), resolution: "ROOT" };
  const joined =
    verdict.resolution === "RESOLVED" && lineage !== null
      ? await joinParent(verdict, rolloutId, lineage, renderer)
      : reasonOf(verdict);
  if (typeof joined !== "string") return joined;
  return {
    ids: await renderer.promptIds(conversation),
    resolution: "UNRESOLVED", // M2
    reason: joined,
  };
}

async function parentVerdict(
  conversation: Conversation,
  rolloutId: string,
  lineage: TokenLineage | null,
): Promise<ParentVerdict> {
  if (lineage === null) {
    const isRoot = conversation.messages.every((message) => message.role !== "assistant");
    return isRoot
      ? { resolution: "ROOT" }
      : { resolution: "UNRESOLVED", reason: "no lineage is configured" };
  }
  try {
    return await resolveParent(conversation, rolloutId, lineage);
  } catch (error) {
    return { resolution: "UNRESOLVED", reason: `lineage failed: ${messageOf(error)}` };
  }
}

/** The joined prompt, or why the parent cannot be continued. */
async function joinParent(
  verdict: Extract<ParentVerdict, { resolution: "RESOLVED" }>,
  rolloutId: string,
  lineage: TokenLineage,
  renderer: Renderer,
): Promise<Prompt | string> {
  const { parent, appended } = verdict;
  if (appended.length === 0) return "nothing follows the parent's turn";
  if (appended.some((message) => message.role === "assistant"))
    return "an assistant turn that was not recorded follows the parent's";
  let past: Int32Array;
  try {
    past = await lineage.cumulativeIds(rolloutId, parent.modelCallId);
  } catch (error) {
    return `the parent's ids are missing: ${messageOf(error)}`;
  }
  if (past.length !== parent.cumLen)
    return `the parent has ${past.length} ids where its record says ${parent.cumLen}`;
  if (!renderer.endsTurn(past)) return "the parent's turn was cut before its end-of-turn token";
  const next = await renderer.continuationIds(appended);
  const ids = new Int32Array(past.length + next.length);
  ids.set(past); // M1
  ids.set(next, past.length);
  return { ids, resolution: "RESOLVED", parentCallId: parent.modelCallId };
}

function reasonOf(verdict: ParentVerdict): string {
  return verdict.resolution === "UNRESOLVED" ? verdict.reason : "no lineage is configured";
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
