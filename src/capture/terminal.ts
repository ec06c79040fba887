/**
 * Finds the call that produced the harness's final answer.
 *
 * A1. By served message id; else by text, when exactly one call served it. Blanks around a text count for nothing,
 *     because a harness may cut them: two calls whose texts differ only there are ambiguous.
 */
import type { TerminalAttribution } from "./metrics.js";
import type { TokenEntry } from "./records.js";

/** The final answer as the harness reported it. */
export interface Terminal {
  /** Id of the served message. */
  readonly messageId?: string | null;
  readonly text?: string | null;
}

/** A1. `chain` is set once a chain is chosen. */
export function attributeTerminal(
  terminal: Terminal | undefined,
  entries: readonly TokenEntry[],
): TerminalAttribution {
  const messageId = terminal?.messageId ?? "";
  if (messageId !== "") {
    const calls = entries.filter((entry) => entry.served_message_id === messageId);
    if (calls[0] !== undefined && calls.length === 1) return attributed("message_id", calls[0]);
    if (calls.length > 1) return unattributed("MESSAGE_ID_AMBIGUOUS");
  }
  const text = (terminal?.text ?? "").trim();
  if (text !== "") {
    const calls = entries.filter((entry) => entry.served_text?.trim() === text);
    if (calls[0] !== undefined && calls.length === 1) return attributed("text", calls[0]);
    return unattributed(calls.length > 1 ? "TEXT_AMBIGUOUS" : "TEXT_NOT_SERVED");
  }
  return unattributed(messageId === "" ? "NOT_GIVEN" : "MESSAGE_ID_NOT_SERVED");
}

function attributed(method: "message_id" | "text", entry: TokenEntry): TerminalAttribution {
  return { method, call_id: entry.model_call_id, reason: "", chain: "" };
}

function unattributed(reason: string): TerminalAttribution {
  return { method: "", call_id: null, reason, chain: "" };
}
