/** One server-sent event whose data is JSON. JSON text holds no line break, so one `data:` line is enough. */
export function serverSentEvent(event: string, data: unknown): string {
  return `event: ${event}\n${dataEvent(data)}`;
}

/** An event without a name. */
export function dataEvent(data: unknown): string {
  return `data: ${JSON.stringify(data)}\n\n`;
}

/** Keeps a connection busy; no client sees it as an event. */
export const SSE_COMMENT = ": keep-alive\n\n";

export const SSE_HEADERS = {
  "content-type": "text/event-stream; charset=utf-8",
  "cache-control": "no-cache",
  "x-accel-buffering": "no",
} as const;
