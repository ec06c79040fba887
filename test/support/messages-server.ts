import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** What the policy does on one call. */
export type ScriptedReply =
  | { readonly text: string }
  | { readonly bash: string }
  | { readonly status: number; readonly message: string }
  | { readonly hang: true };

export interface SeenCall {
  readonly path: string;
  readonly apiKey: string | undefined;
  readonly body: Record<string, unknown>;
}

/** An Anthropic Messages endpoint on loopback that answers from a script; its last reply repeats. */
export class MessagesServer implements AsyncDisposable {
  readonly calls: SeenCall[] = [];
  readonly url: string;
  readonly #close: () => Promise<void>;
  #callSeen: () => void = () => {};

  private constructor(url: string, close: () => Promise<void>) {
    this.url = url;
    this.#close = close;
  }

  static async listen(script: readonly ScriptedReply[]): Promise<MessagesServer> {
    let server: MessagesServer | undefined;
    const http = createServer((request, response) => {
      void server?.answer(request, response, script);
    });
    await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve));
    const { port } = http.address() as AddressInfo;
    server = new MessagesServer(`http://127.0.0.1:${port}`, async () => {
      http.closeAllConnections();
      await new Promise((resolve) => http.close(resolve));
    });
    return server;
  }

  /** Resolves when the next call arrives. */
  nextCall(): Promise<void> {
    return new Promise((resolve) => {
      this.#callSeen = resolve;
    });
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#close();
  }

  private async answer(
    request: IncomingMessage,
    response: ServerResponse,
    script: readonly ScriptedReply[],
  ): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    if (request.method !== "POST") return void response.end();
    const body = JSON.parse(Buffer.concat(chunks).toString("utf8"));
    const apiKey = request.headers["x-api-key"];
    this.calls.push({ path: request.url ?? "", apiKey: apiKey?.toString(), body });
    this.#callSeen();
    const number = this.calls.length;
    const reply = script[Math.min(number, script.length) - 1]!;
    if ("hang" in reply) return;
    if ("status" in reply) {
      response.writeHead(reply.status, { "content-type": "application/json" });
      const error = { type: "api_error", message: reply.message };
      return void response.end(JSON.stringify({ type: "error", error }));
    }
    response.writeHead(200, { "content-type": "text/event-stream" });
    for (const event of turnEvents(reply, number, String(body.model)))
      response.write(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
    response.end();
  }
}

function turnEvents(
  reply: { text: string } | { bash: string },
  number: number,
  model: string,
): { type: string }[] {
  const message = { id: `msg_${number}`, type: "message", role: "assistant", model, content: [] };
  const usage = { input_tokens: 5, output_tokens: 1 };
  const isText = "text" in reply;
  const block = isText
    ? { type: "text", text: "" }
    : { type: "tool_use", id: `toolu_${number}`, name: "Bash", input: {} };
  const delta = isText
    ? { type: "text_delta", text: reply.text }
    : {
        type: "input_json_delta",
        partial_json: JSON.stringify({ command: reply.bash, description: "scripted" }),
      };
  const stop = { stop_reason: isText ? "end_turn" : "tool_use", stop_sequence: null };
  return [
    { type: "message_start", ...{ message: { ...message, usage, stop_reason: null } } },
    { type: "content_block_start", ...{ index: 0, content_block: block } },
    { type: "content_block_delta", ...{ index: 0, delta } },
    { type: "content_block_stop", ...{ index: 0 } },
    { type: "message_delta", ...{ delta: stop, usage: { output_tokens: 9 } } },
    { type: "message_stop" },
  ];
}
