/**
 * A request as every dialect means it: the one form that lineage fingerprints and renderers render.
 * A dialect builds it from its own body and drops what the policy never sees (cache marks, the billing line).
 */
import type { ServedToolCall } from "./records.js";

/** A tool that the request offers. */
export interface ToolSpecification {
  readonly name: string;
  readonly description: string;
  /** JSON Schema of the arguments. */
  readonly parameters: unknown;
}

export interface AssistantTurn {
  readonly role: "assistant";
  /** Text blocks joined in order; "" when there is none. */
  readonly text: string;
  readonly reasoning?: string;
  readonly toolCalls: readonly ServedToolCall[];
}

export interface ToolResult {
  readonly role: "tool";
  readonly toolCallId: string;
  readonly text: string;
  readonly isError: boolean;
}

export interface PlainTurn {
  readonly role: "system" | "user";
  readonly text: string;
}

export type ConversationMessage = AssistantTurn | ToolResult | PlainTurn;

export interface Conversation {
  readonly model: string;
  /** The system prompt; "" when there is none. */
  readonly system: string;
  readonly tools: readonly ToolSpecification[];
  readonly messages: readonly ConversationMessage[];
}
