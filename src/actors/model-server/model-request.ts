/** A model call as every dialect means it. */
import type {
  CallPurpose,
  Conversation,
  SamplingParameters,
  ServedToolCall,
} from "../../capture/index.js";

/**
 * What a request says of tool calls. "none": what looks like one is served as text; tools stay in the prompt, so that a
 * conversation that forbids them for one call stays one chain. "required", or one tool by name, would force the policy
 * to tokens that are not its own: such a request is refused, unless the engine is for evaluation only and forces it.
 */
export type ToolChoice = "auto" | "none" | "required" | { readonly name: string };

export interface ModelRequest {
  readonly conversation: Conversation;
  readonly stream: boolean;
  /** As the harness asked; the pin decides. */
  readonly sampling: SamplingParameters;
  /** Texts, none empty, of which the first to appear ends the answer. */
  readonly stopSequences: readonly string[];
  readonly toolChoice: ToolChoice;
  /** The answer shows each token with its log probability. */
  readonly wantsLogprobs: boolean;
  /** How the dialect's ids begin. */
  readonly idPrefixes: { readonly message: string; readonly toolCall: string };
  /** As far as the request shows it. */
  readonly purpose: CallPurpose;
}

/** One generated token as clients see it. */
export interface ServedToken {
  /** Its text; U+FFFD where it holds a part of a character. */
  readonly text: string;
  /** Natural log. */
  readonly logProb: number;
}

/** An answer as it goes to the harness. */
export interface ServedReply {
  readonly messageId: string;
  /** As requested. */
  readonly model: string;
  /** Seconds since the Unix epoch, whole. */
  readonly createdAtS: number;
  /** "" when there is none. */
  readonly reasoning: string;
  /** "" when there is no text block. */
  readonly text: string;
  readonly toolCalls: readonly ServedToolCall[];
  readonly finishReason: "stop" | "length";
  /** The requested text that ended the answer; not part of `text`. */
  readonly stopSequence: string | null;
  /** All generated tokens; null when they were not asked for. */
  readonly tokens: readonly ServedToken[] | null;
  /** Tokens. */
  readonly inputTokens: number;
  /** Tokens, the end-of-turn token included. */
  readonly outputTokens: number;
}

/** What is known of an answer before there is one. */
export type ReplyHead = Pick<ServedReply, "messageId" | "model" | "createdAtS" | "inputTokens">;

/** The parameters that a request sets. Null and absent are the same. */
export function givenSampling(
  asked: { readonly [name in keyof SamplingParameters]: number | null | undefined },
): SamplingParameters {
  return Object.fromEntries(
    Object.entries(asked).filter(([, value]) => value !== undefined && value !== null),
  );
}
