/** The model-server actor. Cheap to import: Fastify, the tokenizer and the template load when one is created. */
import type { ActorContext } from "../../runtime/index.js";
import { defineActor } from "../../runtime/index.js";
import type { ModelServer } from "./model-server.js";
import { type ModelServerOptions, parseModelServerOptions } from "./options.js";

export const modelServer = defineActor<ModelServer, ModelServerOptions>({
  module: import.meta.url,
  name: "modelServer",
  options: { parse: parseModelServerOptions },
  create: createModelServer,
  stop: (server) => server.close(),
});

async function createModelServer(
  options: ModelServerOptions,
  ctx: ActorContext,
): Promise<ModelServer> {
  const [server, embedded, qwen3, captureClient, policy] = await Promise.all([
    import("./model-server.js"),
    import("./engines/embedded.js"),
    import("./renderers/qwen3-renderer.js"),
    import("./capture-client.js"),
    import("../../embedded-policy/index.js"),
  ]);
  const capture = await captureClient.openCapture(options.capture);
  if (capture !== null) warnUnpinned(options, ctx);
  const vocabulary = await policy.loadQwen3Vocabulary();
  const embeddedPolicy = new policy.EmbeddedPolicy(vocabulary);
  const worker = new server.ModelServer(options, {
    engine: new embedded.EmbeddedEngine(embeddedPolicy, options.engine.policy),
    renderer: new qwen3.Qwen3Renderer(vocabulary, policy.qwen3ChatTemplate()),
    capture,
    logger: ctx.logger,
  });
  await worker.start();
  return worker;
}

/** A harness that picks its own temperature or filter makes log probabilities of unlike distributions. */
function warnUnpinned(options: ModelServerOptions, ctx: ActorContext): void {
  const { samplingOverrides, workerIndex } = options;
  const keys = ["temperature", "top_p", "top_k"] as const;
  const unpinned = keys.filter((key) => samplingOverrides[key] === undefined);
  if (unpinned.length > 0 && workerIndex === 0)
    ctx.logger.warn(
      { unpinned },
      `token capture is on, but sampling_overrides does not pin ${unpinned.join(", ")}: the harness decides`,
    );
}
