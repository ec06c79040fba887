/**
 * Rolling out against a server that another process runs (`corral serve`).
 *
 * V1. The server's capture block is the run's: agents' flags stay the run's, a block of its own that differs is refused.
 * V2. A server that captures gives rebuilt rows, or the run does not start: never text-only rows that look complete.
 */
import {
  type Attachment,
  Attachment as AttachmentSchema,
  askServer,
  type CaptureStore,
  type ModelServer,
  remoteStore,
  remoteWorker,
} from "../actors/index.js";
import type { ActorRef, Runtime } from "../runtime/index.js";
import { checkIsolation } from "./config/isolation.js";
import { Config, type CorralConfig } from "./config/schema.js";
import { ConfigError } from "./errors.js";
import { type ServerWorker, type Serving, SHARED_CONCURRENCY, STAGE } from "./serving.js";

/** A server that answered. */
export interface RemoteServing {
  readonly url: string;
  readonly attachment: Attachment;
}

/** @throws SERVER_UNREACHABLE when nothing answers there as a Corral server. */
export async function attachServer(server: string): Promise<RemoteServing> {
  const url = server.replace(/\/+$/, "");
  try {
    const answer = await askServer(url, { target: "attach" });
    return { url, attachment: AttachmentSchema.parse(answer) };
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new ConfigError(
      "SERVER_UNREACHABLE",
      "--server",
      `no Corral server answers there (${reason}); give the URL that corral serve printed`,
      { cause },
    );
  }
}

/**
 * The run's config with the server's capture block (V1).
 * @throws SETTINGS_CONFLICT naming the key and both values; INVALID_VALUE for a model that is not served, or
 * an agent without isolation where the server's engine is not the embedded one.
 */
export function withServerCapture(
  config: CorralConfig,
  { attachment }: RemoteServing,
): CorralConfig {
  const { capabilities } = attachment;
  const theirs: Readonly<Record<string, unknown>> = capabilities.token_id_capture;
  const ours: Readonly<Record<string, unknown>> = config.token_id_capture;
  const unset: Readonly<Record<string, unknown>> = Config.parse({}).token_id_capture;
  if (JSON.stringify(ours) !== JSON.stringify(unset))
    for (const key of Object.keys({ ...ours, ...theirs })) {
      if (key.endsWith("_kwargs") || same(ours[key], theirs[key])) continue;
      throw new ConfigError(
        "SETTINGS_CONFLICT",
        `token_id_capture.${key}`,
        `is ${shown(ours[key])} here and ${shown(theirs[key])} on the server; leave the block out, or make both the same`,
      );
    }
  for (const [name, { model }] of Object.entries(config.responses_api_agents))
    if (!capabilities.models.includes(model))
      throw new ConfigError(
        "INVALID_VALUE",
        `responses_api_agents.${name}.model`,
        `${JSON.stringify(model)} is not served; allowed: ${capabilities.models.join(", ")}`,
      );
  // Of an embedded policy the digest is known. What the run's own config calls its model's engine does not count.
  const digestOf = (model: string) => attachment.digests[capabilities.models.indexOf(model)];
  checkIsolation(config, (model) => typeof digestOf(model) === "string");
  return Config.parse({ ...config, token_id_capture: theirs });
}

function same(a: unknown, b: unknown): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}

function shown(value: unknown): string {
  return value === undefined ? "not set" : JSON.stringify(value);
}

/** The server's store and workers as actors of this runtime. */
export async function startRemote(runtime: Runtime, remote: RemoteServing): Promise<Serving> {
  const { url: server, attachment } = remote;
  const options = (name: string, stopStage: number) => ({
    name,
    maxConcurrency: SHARED_CONCURRENCY,
    stopStage,
  });
  const store = attachment.hasStore
    ? await runtime.spawn(remoteStore, { server }, options("remote-store", STAGE.store))
    : undefined;
  const servers = new Map<string, ServerWorker[]>();
  for (const { model, name, url } of attachment.workers) {
    const spawned = options(`remote-${name}`, STAGE.server);
    const ref = await runtime.spawn(remoteWorker, { server, name }, spawned);
    const workers = servers.get(model) ?? [];
    servers.set(model, workers);
    // A run opens, seals and asks for the status, which is what these have; new weights go to the server's own process.
    workers.push({ name, url, ref: ref as unknown as ActorRef<ModelServer> });
  }
  return {
    store: store as unknown as ActorRef<CaptureStore> | undefined,
    servers,
    digests: attachment.digests,
    keySecret: new Uint8Array(Buffer.from(attachment.keySecret, "base64")),
  };
}
