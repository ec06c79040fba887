/** How an answer leaves, well or badly. */
import type { ServerResponse } from "node:http";
import type { TransportFault } from "./faults.js";

/** `NaN` as Python's `json.dumps` writes it; JSON has none. */
function pythonJson(value: unknown): string {
  const mark = "\u0001NaN\u0001";
  const text = JSON.stringify(value, (_key, item: unknown) =>
    typeof item === "number" && Number.isNaN(item) ? mark : item,
  );
  return text.replaceAll(JSON.stringify(mark), "NaN");
}

export function sendJson(response: ServerResponse, status: number, body: unknown): void {
  if (response.headersSent || response.destroyed) return;
  response.writeHead(status, { "content-type": "application/json" }).end(pythonJson(body));
}

export function sendFault(response: ServerResponse, fault: TransportFault, body: unknown): void {
  const text = pythonJson(body);
  switch (fault) {
    case "status_429":
    case "status_503":
    case "status_500":
      response.setHeader("retry-after", "0");
      sendStatus(response, fault);
      return;
    case "stall":
      return;
    case "reset":
      response.destroy();
      return;
    case "reset_in_body":
      response.writeHead(200, {
        "content-type": "application/json",
        "content-length": text.length,
      });
      response.write(text.slice(0, text.length / 2), () => response.destroy());
      return;
    case "stream_without_space":
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.end(`data:${text}\n\ndata:[DONE]\n\n`);
      return;
    case "no_json":
      response.writeHead(200, { "content-type": "application/json" }).end("<html>gateway</html>");
      return;
  }
}

function sendStatus(response: ServerResponse, fault: TransportFault): void {
  const status = Number(fault.slice(-3));
  sendJson(response, status, { error: { message: `fault ${fault}`, code: status } });
}
