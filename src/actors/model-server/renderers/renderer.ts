/** The seam between conversations and token ids. */
import type { Conversation, ConversationMessage } from "../../../capture/index.js";

/** What a generation says, read from its ids. */
export interface ParsedTurn {
  /** What stood in the turn's reasoning block; "" when there is none. */
  readonly reasoning: string;
  /** All that is no well-formed tool call, in order; "" when there is none. */
  readonly text: string;
  readonly toolCalls: readonly { readonly name: string; readonly arguments: unknown }[];
}

/** Chat template, tokenizer and tool parser of one model family. */
export interface Renderer {
  /** Every id is in [0, vocabularySize). */
  readonly vocabularySize: number;
  /** Ids of the whole request, up to where the assistant starts to speak. int32[P]. */
  promptIds(conversation: Conversation): Promise<Int32Array>;
  /** Ids of only what follows a finished assistant turn (its end-of-turn id excluded). int32[n]. */
  continuationIds(appended: readonly ConversationMessage[]): Promise<Int32Array>;
  /** True when the ids end with the end-of-turn id. */
  endsTurn(ids: Int32Array): boolean;
  /** With `toolCalls: false` the markup of tool calls stays text. */
  parseTurn(ids: ArrayLike<number>, options?: { readonly toolCalls: boolean }): ParsedTurn;
  /** Text of ids, special tokens included. */
  decode(ids: ArrayLike<number>): string;
}
