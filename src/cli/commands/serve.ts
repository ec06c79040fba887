/** `corral serve`: serves models until a signal; `corral run --server URL` rolls out against it. */
import { once } from "node:events";
import { loadConfig, serve } from "../../index.js";
import { printText, printWarning } from "../output.js";

export interface ServeOptions {
  readonly config: readonly string[];
  readonly port?: number;
}

export async function serveCommand(options: ServeOptions): Promise<number> {
  const { port } = options;
  await using served = await serve({
    config: loadConfig(options.config),
    ...(port === undefined ? {} : { port }),
    onWarning: printWarning,
  });
  const stopped = Promise.race([once(process, "SIGINT"), once(process, "SIGTERM")]);
  await printText(`${served.url}\n`);
  await stopped;
  return 0;
}
