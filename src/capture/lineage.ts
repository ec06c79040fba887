/**
 * Decides, before a request is sent to the engine, which recorded call it continues.
 *
 * L1. The newest assistant turn finds the candidates: by its served tool-call ids (random, unique), else by its exact
 *     text.
 * L2. A candidate is the parent only when the turn is a faithful echo of what it served, its model is the request's,
 *     and everything before the turn is what it saw.
 * L3. Never guessed: several candidates with unlike tokens, or none, are UNRESOLVED with a reason.
 * L4. A parent cut off by its token limit has no end-of-turn id, so nothing can follow it exactly.
 * L5. A history of a summary that this rollout's model wrote and of one round that it was written after begins a tree of
 *     its own: what the harness repeats is a faithful echo, and context. With another turn in it, another system prompt or
 *     other tools it does not.
 */
import type { LineageKey, LineageNode, TokenLineage } from "./contracts.js";
import type {
  AssistantTurn,
  Conversation,
  ConversationMessage,
  ToolSpecification,
} from "./conversation.js";
import { echoEquivalent } from "./echo.js";
import { contextDigest, FINGERPRINT_VERSION, normalizeAssistantText } from "./fingerprint.js";

/** Why a request with a history has no parent. */
export type UnresolvedReason =
  /** The newest assistant turn has tool-call ids that no call of this rollout served, or it is empty. */
  | "FOREIGN_TURN"
  /** No call of this rollout served that text. */
  | "NO_CANDIDATE"
  /** The newest assistant turn is the last message: there is nothing to append. */
  | "NOTHING_APPENDED"
  /** Names, text or arguments of the turn differ from what was served. */
  | "ECHO_CHANGED"
  | "MODEL_CHANGED"
  /** The candidate was fingerprinted by another version. */
  | "FINGERPRINT_VERSION"
  /** System, tools or a message before the turn differ from what the candidate saw. */
  | "CONTEXT_CHANGED"
  | "PARENT_TRUNCATED"
  | "AMBIGUOUS_PARENT";

export type ParentVerdict =
  | { readonly resolution: "ROOT"; readonly reason?: "COMPACTED" }
  | {
      readonly resolution: "RESOLVED";
      readonly parent: LineageNode;
      /** All messages after the parent's assistant turn. */
      readonly appended: readonly ConversationMessage[];
    }
  | { readonly resolution: "UNRESOLVED"; readonly reason: UnresolvedReason };

/** A recorded call that summarised the history of its rollout. */
export interface Compaction {
  readonly servedText: string;
  /** `contextDigest` of its conversation without messages. */
  readonly frameDigest: string;
  /** Calls recorded before it. */
  readonly earlierCallIds: ReadonlySet<string>;
}

/**
 * Contract: a lineage that fails rejects here; the caller then treats the call as UNRESOLVED.
 * @param compactions those of this rollout that the caller knows; one that it does not know makes no tree.
 */
export async function resolveParent(
  conversation: Conversation,
  rolloutId: string,
  lineage: Pick<TokenLineage, "candidates">,
  compactions: readonly Compaction[] = [],
): Promise<ParentVerdict> {
  const { messages } = conversation;
  const turnIndex = messages.findLastIndex((message) => message.role === "assistant");
  const turn = messages[turnIndex];
  if (turn?.role !== "assistant") return { resolution: "ROOT" };
  const appended = messages.slice(turnIndex + 1);
  if (appended.length === 0) return unresolved("NOTHING_APPENDED");
  const key = keyOf(turn);
  if (key === undefined) return unresolved("FOREIGN_TURN");
  const candidates = await lineage.candidates(rolloutId, key);
  if (candidates.length === 0) {
    return unresolved(key.kind === "text" ? "NO_CANDIDATE" : "FOREIGN_TURN");
  }
  const digest = contextDigest(conversation, turnIndex);
  const refusals = candidates.map((candidate) => refusal(candidate, turn, conversation, digest));
  const accepted = candidates.filter((_, index) => refusals[index] === undefined);
  if (accepted.length > 0) return choose(accepted, appended);
  const reason = furthest(refusals);
  if (reason !== "CONTEXT_CHANGED") return unresolved(reason);
  const echoed = candidates.filter((_, index) => refusals[index] === reason);
  const isCompacted = compactions.some((compaction) =>
    followsCompaction(conversation, turnIndex, echoed, compaction),
  );
  return isCompacted ? { resolution: "ROOT", reason: "COMPACTED" } : unresolved(reason);
}

/** L5 */
function followsCompaction(
  conversation: Conversation,
  turnIndex: number,
  echoed: readonly LineageNode[],
  { servedText, frameDigest, earlierCallIds }: Compaction,
): boolean {
  const before = conversation.messages.slice(0, turnIndex);
  return (
    before.every((message) => message.role !== "assistant") &&
    echoed.some((node) => earlierCallIds.has(node.modelCallId)) &&
    beginsWithSummary(before, servedText) &&
    contextDigest(conversation, 0) === frameDigest
  );
}

/** Harnesses strip the tags of a summary, join its blank lines and write words of their own around it. */
function beginsWithSummary([first]: readonly ConversationMessage[], servedText: string): boolean {
  if (first?.role !== "user") return false;
  const summary = joinBlanks(SUMMARY.exec(servedText)?.[1] ?? servedText);
  return summary.length >= MIN_SUMMARY_LENGTH && joinBlanks(first.text).includes(summary);
}

/** Characters: a shorter text is in a message by chance. */
const MIN_SUMMARY_LENGTH = 16;

const SUMMARY = /<summary>([\s\S]*)<\/summary>/;

function joinBlanks(text: string): string {
  return text.replace(/\s+/g, " ").trim();
}

function unresolved(reason: UnresolvedReason): ParentVerdict {
  return { resolution: "UNRESOLVED", reason };
}

function keyOf(turn: AssistantTurn): LineageKey | undefined {
  if (turn.toolCalls.length > 0) {
    return { kind: "tool_call_ids", ids: turn.toolCalls.map((call) => call.id) };
  }
  return normalizeAssistantText(turn.text) === "" ? undefined : { kind: "text", text: turn.text };
}

/** The checks of a candidate, in order; a later reason is nearer to being the parent. */
const CHECKS = ["ECHO_CHANGED", "MODEL_CHANGED", "FINGERPRINT_VERSION", "CONTEXT_CHANGED"] as const;

function refusal(
  candidate: LineageNode,
  turn: AssistantTurn,
  { model, tools }: Conversation,
  digest: string,
): (typeof CHECKS)[number] | undefined {
  if (!isEcho(candidate, turn, tools)) return "ECHO_CHANGED";
  if (candidate.model !== model) return "MODEL_CHANGED";
  if (candidate.fingerprintVersion !== FINGERPRINT_VERSION) return "FINGERPRINT_VERSION";
  return candidate.contextDigest === digest ? undefined : "CONTEXT_CHANGED";
}

function furthest(refusals: readonly (UnresolvedReason | undefined)[]): UnresolvedReason {
  return CHECKS.findLast((reason) => refusals.includes(reason)) ?? "NO_CANDIDATE";
}

function isEcho(
  candidate: LineageNode,
  turn: AssistantTurn,
  tools: readonly ToolSpecification[],
): boolean {
  const { servedText, servedToolCalls } = candidate;
  if (normalizeAssistantText(servedText) !== normalizeAssistantText(turn.text)) return false;
  return (
    servedToolCalls.length === turn.toolCalls.length &&
    servedToolCalls.every((served, index) => {
      const echoed = turn.toolCalls[index];
      return (
        echoed?.id === served.id &&
        echoed.name === served.name &&
        echoEquivalent(served.arguments, echoed.arguments, schemaOf(tools, served.name))
      );
    })
  );
}

function schemaOf(tools: readonly ToolSpecification[], name: string): unknown {
  return tools.find((tool) => tool.name === name)?.parameters;
}

function choose(
  accepted: readonly LineageNode[],
  appended: readonly ConversationMessage[],
): ParentVerdict {
  // Smallest call id: any of several calls with identical tokens is the same context, but every worker must agree.
  const parent = accepted.reduce((a, b) => (b.modelCallId < a.modelCallId ? b : a));
  const sameTokens = accepted.every((node) => node.cumulativeDigest === parent.cumulativeDigest);
  if (!sameTokens) return unresolved("AMBIGUOUS_PARENT");
  if (accepted.some((node) => node.finishReason === "length")) {
    return unresolved("PARENT_TRUNCATED");
  }
  return { resolution: "RESOLVED", parent, appended };
}
