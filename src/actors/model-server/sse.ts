/**
 * One server-sent event whose data is JSON on one `data:` line.
 *
 * V1. The data holds no character that any reader takes for the end of a line: JSON escapes the usual ones, but a client
 *     that splits lines by Unicode's rules, as Python's do, would cut the event at three others.
 */
export function serverSentEvent(event: string, data: unknown): string {
  return `event: ${event}\n${dataEvent(data)}`;
}

/** An event without a name. */
export function dataEvent(data: unknown): string {
  return `data: ${JSON.stringify(data).replace(UNICODE_LINE_ENDS, escaped)}\n\n`; // V1
}

const UNICODE_LINE_ENDS = /[\u0085\u2028\u2029]/g;

function escaped(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

/** Keeps a connection busy; no client sees it as an event. */
export const SSE_COMMENT = ": keep-alive\n\n";

export const SSE_HEADERS = {
  "content-type": "text/event-stream; charset=utf-8",
  "cache-control": "no-cache",
  "x-accel-buffering": "no",
} as const;
