/** The seams to whatever samples tokens. */
import type {
  Conversation,
  ConversationMessage,
  LogprobsMode,
  PolicyVersionSpan,
} from "../../../capture/index.js";
import type { PolicySnapshot } from "../../../embedded-policy/index.js";
import type { ToolChoice } from "../model-request.js";
import type { ParsedTurn } from "../renderers/renderer.js";
import type { PinnedSampling } from "../sampling-pin.js";

/** What an engine can do, as its start check found it. It decides what may be captured and what is warned of. */
export interface EngineCapabilities {
  /** Answers carry token ids and log probabilities. False: evaluation only, nothing can be captured. */
  readonly tokenIds: boolean;
  /** The prompt is the ids that we send, so a call can be conditioned on exactly the ids of an earlier one. */
  readonly prefixSupply: boolean;
  /** The engine says which weights sampled a token; else the version is the one that we know of. */
  readonly reportsPolicyVersion: boolean;
  /** Tokens of prompt and answer together; undefined: no limit is known. */
  readonly contextTokens?: number;
  /** A `tool_choice` that forces a call is obeyed. Never where tokens are recorded: a forced one is not the policy's. */
  readonly forcesToolCalls?: true;
}

/** What the embedded engine can do, and the most that an engine may. */
export const FULL_CAPABILITIES: EngineCapabilities = {
  tokenIds: true,
  prefixSupply: true,
  reportsPolicyVersion: true,
};

interface CallOptions {
  readonly sampling: PinnedSampling;
  /** Contract: the engine stops work for this call when it fires. */
  readonly signal: AbortSignal;
  /** Calls with the same key go to the same replica, where their prefix is cached. */
  readonly affinity?: string;
}

export interface TokenRequest extends CallOptions {
  /** int32[P]. */
  readonly promptIds: Int32Array;
  /** Ids that end the answer; the one that ended it is part of it. */
  readonly stopIds?: readonly number[];
}

/** What an engine answered, as it answered it: not checked yet, so a fraction or a NaN is still visible. */
export interface TokenGeneration {
  /** [G], the end-of-turn token included when it was sampled. */
  readonly tokenIds: ArrayLike<number>;
  /** [G], natural log. NaN where the engine gave none. */
  readonly logProbs: ArrayLike<number>;
  readonly logprobsMode: LogprobsMode;
  readonly finishReason: "stop" | "length";
  /** Versions that may have sampled it; absent when the engine cannot tell: then the server's own count stands. */
  readonly policyVersionStart?: number;
  readonly policyVersionEnd?: number;
  /** Of every token, where the engine says so. */
  readonly policyVersionSpans?: readonly PolicyVersionSpan[];
  /** The prompt as the engine reports it. */
  readonly promptIds?: ArrayLike<number>;
  /** The engine's own counts. */
  readonly promptTokens?: number;
  readonly completionTokens?: number;
}

interface Engine {
  readonly capabilities: EngineCapabilities;
  /**
   * Holds generation while weights change; calls in flight go on afterwards. Absent where no such engine can.
   * @returns false when this server has no such endpoint.
   */
  pause?(): Promise<boolean>;
  resume?(): Promise<boolean>;
  /** New weights for an engine that holds its own; calls that began keep theirs. */
  setPolicy?(snapshot: PolicySnapshot): void;
  /** Idempotent. */
  close(): Promise<void>;
}

/** Token ids in, token ids and log probabilities out. */
export interface TokenEngine extends Engine {
  generate(request: TokenRequest): Promise<TokenGeneration>;
}

/** A recorded call, and what follows it. */
export interface ParentTokens {
  /** int32[n]: its prompt and its generation. */
  readonly ids: Int32Array;
  readonly appended: readonly ConversationMessage[];
}

export interface EnginePrompt {
  /** int32[P]; null when only the engine's answer tells them. */
  readonly ids: Int32Array | null;
  /** Why these are not the parent's ids continued: a new segment begins. */
  readonly refusal?: string;
}

export interface ChatRequest extends CallOptions {
  readonly conversation: Conversation;
  readonly prompt: EnginePrompt;
  /** Texts, none empty, of which the first to appear ends the answer. */
  readonly stopSequences: readonly string[];
  readonly toolChoice: ToolChoice;
}

/** An answer and what it says. */
export interface ChatGeneration extends TokenGeneration {
  readonly turn: ParsedTurn;
  /** The requested text that ended the answer; null when none did. */
  readonly stopSequence: string | null;
  /** [G], each token's text; absent where the engine cannot tell. */
  readonly tokenTexts?: () => readonly string[];
}

/** Conversations in, answers out. A `TokenEngine` with a renderer is one; so is a server that renders by itself. */
export interface ChatEngine extends Engine {
  /** Every id is in [0, vocabularySize). */
  readonly vocabularySize: number;
  /** The prompt of a request, continuing the parent's exact ids where that is possible. */
  prompt(conversation: Conversation, parent?: ParentTokens): Promise<EnginePrompt>;
  generate(request: ChatRequest): Promise<ChatGeneration>;
  /** Tokens of the request's prompt. */
  countTokens(conversation: Conversation): Promise<number>;
}

/** What is wrong with a generation, or null. The same bounds as the record's: see `TokenEntry`. */
export function generationProblem(
  generation: TokenGeneration,
  vocabularySize: number,
): string | null {
  const { tokenIds, logProbs, completionTokens } = generation;
  if (tokenIds.length !== logProbs.length)
    return `engine sent ${tokenIds.length} token ids and ${logProbs.length} log probabilities`;
  if (completionTokens !== undefined && completionTokens !== tokenIds.length)
    return `engine sent ${tokenIds.length} token ids and counted ${completionTokens}`;
  for (let i = 0; i < tokenIds.length; i++) {
    const id = tokenIds[i];
    if (!isTokenId(id, vocabularySize))
      return `token id ${String(id)} at ${i} is no integer in [0, ${vocabularySize})`;
    const logProb = logProbs[i];
    if (typeof logProb !== "number" || !(logProb <= 1e-6 && logProb > -1000))
      return `log probability ${String(logProb)} at ${i} is not in (-1000, 0]`;
  }
  return null;
}

/** What contradicts that the engine sampled from the ids that we sent, or null. Only what it reports can. */
export function promptProblem(generation: TokenGeneration, sent: Int32Array): string | null {
  const { promptIds, promptTokens } = generation;
  if (promptTokens !== undefined && promptTokens !== sent.length)
    return `engine counted ${promptTokens} prompt tokens, sent were ${sent.length}`;
  if (promptIds === undefined) return null;
  const at = firstDifference(promptIds, sent);
  if (at === null) return null;
  return `engine reports prompt id ${String(promptIds[at])} at ${at}, sent was ${String(sent[at])}`;
}

/** Index of the first difference, which may be one past the end of the shorter; null when equal. */
export function firstDifference(a: ArrayLike<number>, b: ArrayLike<number>): number | null {
  if (a === b) return null;
  const shared = Math.min(a.length, b.length);
  for (let i = 0; i < shared; i++) if (a[i] !== b[i]) return i;
  return a.length === b.length ? null : shared;
}

function isTokenId(id: number | undefined, vocabularySize: number): id is number {
  return id !== undefined && Number.isInteger(id) && id >= 0 && id < vocabularySize;
}
