/**
 * What `corral serve` and a run in another process say to each other: JSON over HTTP on loopback, under a path that only
 * the two know.
 *
 * T1. A method that is not in the table is refused; the table is all that a run may ask of a server.
 */
import { z } from "zod";

export const CONTROL_PATH = "/control";

/** Methods by target. A worker is named beside the method. */
const CONTROL_METHODS = {
  store: ["open", "abandon", "freeze", "peek", "drop"],
  worker: ["openRollout", "sealRollout", "status"],
} as const;

export const ControlCall = z.discriminatedUnion("target", [
  z.strictObject({ target: z.literal("attach") }),
  z.strictObject({
    target: z.literal("store"),
    method: z.enum(CONTROL_METHODS.store),
    args: z.array(z.unknown()),
  }),
  z.strictObject({
    target: z.literal("worker"),
    name: z.string(),
    method: z.enum(CONTROL_METHODS.worker),
    args: z.array(z.unknown()),
  }),
]);
export type ControlCall = z.infer<typeof ControlCall>;

/** What a server tells everybody who asks; no secret is in it. */
export const Capabilities = z.looseObject({
  object: z.literal("corral.capabilities"),
  models: z.array(z.string()),
  dialects: z.array(z.string()),
  /** The server's capture block, without the arguments of modules. */
  token_id_capture: z.looseObject({ enabled: z.boolean() }),
});
export type Capabilities = z.infer<typeof Capabilities>;

/** What a run needs to use a server. */
export const Attachment = z.strictObject({
  capabilities: Capabilities,
  workers: z.array(z.strictObject({ model: z.string(), name: z.string(), url: z.string() })),
  hasStore: z.boolean(),
  /** base64 of the 32 bytes that sign rollout keys. */
  keySecret: z.string(),
  /** Digests of the embedded policies served, for the rows. */
  digests: z.array(z.string().nullable()),
});
export type Attachment = z.infer<typeof Attachment>;

/** @throws Error with the server's message and `code`; the connection's error when there is no server. */
export async function askServer(server: string, call: ControlCall): Promise<unknown> {
  const response = await fetch(`${server}${CONTROL_PATH}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(call),
  });
  const answer = (await response.json()) as { result?: unknown; error?: WireError };
  if (response.ok) return answer.result;
  const { message = `HTTP ${response.status}`, code } = answer.error ?? {};
  throw Object.assign(new Error(message), code === undefined ? {} : { code });
}

interface WireError {
  readonly message?: string;
  readonly code?: string;
}
