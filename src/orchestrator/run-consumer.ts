/**
 * Starts the consumer of a run: an actor, or, for a source that lives in this thread, in this thread.
 */
import { RolloutConsumer, type RolloutConsumerOptions, rolloutConsumer } from "../actors/index.js";
import type { ActorLogger, ActorMethods, Runtime, SpawnOptions } from "../runtime/index.js";
import { installedTokenSource } from "./installed-source.js";

export interface RunConsumer {
  readonly call: ActorMethods<RolloutConsumer>;
  /** After the producers; an actor is closed with its runtime. */
  close(): Promise<void>;
}

export async function startConsumer(
  runtime: Runtime,
  options: RolloutConsumerOptions,
  spawnOptions: SpawnOptions,
  logger: ActorLogger = stderrLines,
): Promise<RunConsumer> {
  const source = installedTokenSource();
  if (source === undefined || !options.rebuildResponse) {
    const { call } = await runtime.spawn(rolloutConsumer, options, spawnOptions);
    return { call, close: async () => undefined };
  }
  const { store: _store, source: _source, servers, ...rest } = options;
  const parts = { ...rest, source, servers: servers.map(({ call }) => call), logger };
  const consumer = await RolloutConsumer.open(parts);
  // Its methods that answer at once are awaited like the others.
  const call = consumer as unknown as ActorMethods<RolloutConsumer>;
  return { call, close: () => consumer.close() };
}

const line = (fields: object, message: string) =>
  process.stderr.write(`${JSON.stringify({ ...fields, msg: message })}\n`);
const stderrLines = { debug: () => undefined, info: () => undefined, warn: line, error: line };
