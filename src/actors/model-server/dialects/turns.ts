import type { ConversationMessage, ServedToolCall } from "../../../capture/index.js";
import { RequestError } from "../request-error.js";

/** What one message adds to an assistant turn. */
export interface AssistantPart {
  readonly text?: string;
  readonly reasoning?: string;
  readonly toolCalls?: readonly ServedToolCall[];
}

/**
 * Collects the turns of a conversation, the same from every dialect.
 *
 * U1. Neighbouring messages of the assistant are one turn, as one answer comes back in several of them; other turns
 *     stay apart.
 */
export class ConversationTurns {
  readonly #turns: ConversationMessage[] = [];

  plain(role: "system" | "user", text: string): void {
    this.#turns.push({ role, text });
  }

  toolResult(toolCallId: string, text: string, isError = false): void {
    this.#turns.push({ role: "tool", toolCallId, text, isError });
  }

  assistant(part: AssistantPart): void {
    const before = this.#turns.at(-1);
    const joins = before?.role === "assistant"; // U1
    if (joins) this.#turns.pop();
    const reasoning = (joins ? (before.reasoning ?? "") : "") + (part.reasoning ?? "");
    this.#turns.push({
      role: "assistant",
      text: (joins ? before.text : "") + (part.text ?? ""),
      ...(reasoning === "" ? {} : { reasoning }),
      toolCalls: [...(joins ? before.toolCalls : []), ...(part.toolCalls ?? [])],
    });
  }

  /**
   * @param lastPath Path of the last message.
   * @throws RequestError 400 when the last turn is the assistant's: an answer cannot be continued.
   */
  finish(lastPath: string): readonly ConversationMessage[] {
    if (this.#turns.at(-1)?.role === "assistant")
      throw new RequestError(400, `${lastPath}: the last message must not be the assistant's`);
    return this.#turns;
  }
}
