/**
 * The ids a harness sees. They are derived from the random call id, so they are unique over restarts, and a history
 * that echoes them names the recorded call.
 */
import { createHash, randomUUID } from "node:crypto";

export function mintCallId(): string {
  return randomUUID();
}

/** `prefix` is the dialect's. */
export function servedMessageId(callId: string, prefix: string): string {
  return prefix + derived(callId, "message");
}

export function servedToolCallId(callId: string, index: number, prefix: string): string {
  return prefix + derived(callId, `tool/${index}`);
}

function derived(callId: string, what: string): string {
  return createHash("sha256").update(`${callId}/${what}`).digest("hex").slice(0, 24);
}
