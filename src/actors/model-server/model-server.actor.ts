/** The model-server actor. Cheap to import: Fastify, the engine and its tokenizer load when one is created. */
import type { ActorContext } from "../../runtime/index.js";
import { defineActor } from "../../runtime/index.js";
import type { ModelServer } from "./model-server.js";
import { type ModelServerOptions, parseModelServerOptions } from "./options.js";

export const modelServer = defineActor<ModelServer, ModelServerOptions>({
  module: import.meta.url,
  name: "modelServer",
  // What it knows is in memory, and a restarted thread begins without it.
  methods: {
    address: { idempotent: true },
    openRollout: { idempotent: true },
    sealRollout: { idempotent: true },
    status: { idempotent: true },
    beginPolicyUpdate: { idempotent: true },
    commitPolicyUpdate: { idempotent: true },
    cancelPolicyUpdate: { idempotent: true },
  },
  options: { parse: parseModelServerOptions },
  create: createModelServer,
  stop: (server) => server.close(),
});

async function createModelServer(
  options: ModelServerOptions,
  ctx: ActorContext,
): Promise<ModelServer> {
  const [server, engines, captureClient] = await Promise.all([
    import("./model-server.js"),
    import("./engines/open-engine.js"),
    import("./capture-client.js"),
  ]);
  const { engine, warnings } = await engines.openEngine(options.engine, options.samplingOverrides);
  const capture = await captureClient.openCapture(options.capture);
  if (options.workerIndex === 0) {
    for (const warning of warnings) ctx.logger.warn({}, warning);
    if (capture !== null) warnUnpinned(options, ctx);
  }
  const settings = { ...options, port: portOf(options), workerGeneration: ctx.restartCount };
  const worker = new server.ModelServer(settings, {
    engine,
    capture,
    logger: ctx.logger,
    engineWarnings: warnings,
  });
  await worker.start();
  options.boundPort?.set([Number(new URL(worker.address().url).port)]);
  return worker;
}

/** Harnesses hold the URL: a restarted worker is found where the first one was. */
function portOf({ port, boundPort }: ModelServerOptions): number {
  return boundPort?.[0] || port;
}

/** A harness that picks its own temperature or filter makes log probabilities of unlike distributions. */
function warnUnpinned(options: ModelServerOptions, ctx: ActorContext): void {
  const { samplingOverrides } = options;
  const keys = ["temperature", "top_p", "top_k"] as const;
  const unpinned = keys.filter((key) => samplingOverrides[key] === undefined);
  if (unpinned.length > 0)
    ctx.logger.warn(
      { unpinned },
      `token capture is on, but sampling_overrides does not pin ${unpinned.join(", ")}: the harness decides`,
    );
}
