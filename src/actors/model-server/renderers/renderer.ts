/** The seam between conversations and token ids. */
import type {
  Conversation,
  ConversationMessage,
  ToolSpecification,
} from "../../../capture/index.js";

/** What a generation says, read from its ids. */
export interface ParsedTurn {
  /** What the policy thought, never part of `text`; "" when there is nothing. */
  readonly reasoning: string;
  /** All that is neither reasoning nor a well-formed tool call, in order; "" when there is none. */
  readonly text: string;
  readonly toolCalls: readonly ParsedToolCall[];
  /** Tool calls that were begun and are not well-formed; they stand in `text`. */
  readonly malformedToolCalls?: number;
}

export interface ParsedToolCall {
  readonly name: string;
  /** A JSON object. */
  readonly arguments: unknown;
}

export interface ParseTurnOptions {
  /** The tools of the request: some formats need their schemas to read arguments. */
  readonly tools?: readonly ToolSpecification[];
  /** False: the markup of tool calls stays text. @default true */
  readonly toolCalls?: boolean;
}

/** Chat template, tokenizer and tool parser of one model family. */
export interface Renderer {
  /** Every id is in [0, vocabularySize). */
  readonly vocabularySize: number;
  /** Ids that end a generation. */
  readonly stopIds: readonly number[];
  /** Ids of the whole request, up to where the assistant starts to speak. int32[P]. */
  promptIds(conversation: Conversation): Promise<Int32Array>;
  /**
   * Ids of only what follows a finished assistant turn (its end-of-turn id excluded). int32[n].
   * @throws Error when the template does not write the messages as such a continuation.
   */
  continuationIds(appended: readonly ConversationMessage[]): Promise<Int32Array>;
  /** True when the ids end with the end-of-turn id. */
  endsTurn(ids: Int32Array): boolean;
  parseTurn(ids: ArrayLike<number>, options?: ParseTurnOptions): ParsedTurn;
  /** Text of ids, special tokens included. */
  decode(ids: ArrayLike<number>): string;
}
