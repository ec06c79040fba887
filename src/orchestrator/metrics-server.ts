import { createServer, type Server } from "node:http";
import { ConfigError } from "./errors.js";

/** Serves `GET /metrics`. */
export class MetricsServer {
  readonly url: string;
  readonly #server: Server;

  private constructor(server: Server, url: string) {
    this.#server = server;
    this.url = url;
  }

  /** @throws START_FAILED when it cannot listen. */
  static async start(host: string, port: number, text: () => string): Promise<MetricsServer> {
    const server = createServer((request, response) => {
      const known = request.url === "/metrics" && request.method === "GET";
      response.writeHead(known ? 200 : 404, { "content-type": "text/plain; version=0.0.4" });
      response.end(known ? text() : "GET /metrics\n");
    });
    try {
      await new Promise<void>((resolve, reject) => {
        server.once("error", reject);
        server.listen(port, host, resolve);
      });
    } catch (cause) {
      const reason = cause instanceof Error ? cause.message : String(cause);
      throw new ConfigError("START_FAILED", "metrics.port", reason, { cause });
    }
    const address = server.address();
    const bound = typeof address === "object" && address !== null ? address.port : port;
    return new MetricsServer(server, `http://${host}:${bound}`);
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise<void>((resolve) => this.#server.close(() => resolve()));
  }
}
