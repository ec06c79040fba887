/** A model call as every dialect means it. */
import type {
  CallPurpose,
  Conversation,
  SamplingParameters,
  ServedToolCall,
} from "../../capture/index.js";

export interface ModelRequest {
  readonly conversation: Conversation;
  readonly stream: boolean;
  /** As the harness asked; the pin decides. */
  readonly sampling: SamplingParameters;
  /** As far as the request shows it. */
  readonly purpose: CallPurpose;
}

/** An answer as it goes to the harness. */
export interface ServedReply {
  readonly messageId: string;
  /** As requested. */
  readonly model: string;
  /** "" when there is no text block. */
  readonly text: string;
  readonly toolCalls: readonly ServedToolCall[];
  readonly finishReason: "stop" | "length";
  /** Tokens. */
  readonly inputTokens: number;
  /** Tokens, the end-of-turn token included. */
  readonly outputTokens: number;
}

/** What is known of an answer before there is one. */
export type ReplyHead = Pick<ServedReply, "messageId" | "model" | "inputTokens">;
