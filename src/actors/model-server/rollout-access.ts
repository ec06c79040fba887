/**
 * Who may call what.
 *
 * G1. A rollout's key opens that rollout's prefix only, in that epoch only, until seal.
 * G2. A refusal is 400 or 403, never 401: Claude Code retries 401 for three minutes.
 */
import type { IncomingHttpHeaders } from "node:http";
import { RequestError } from "./request-error.js";
import { presentsKey } from "./rollout-key.js";
import type { RolloutPath } from "./rollout-path.js";
import type { Rollout, Rollouts } from "./rollouts.js";

export interface AccessRules {
  readonly rollouts: Rollouts;
  readonly keySecret: Uint8Array;
  readonly requireRolloutKey: boolean;
  readonly captureEnabled: boolean;
}

export interface Access {
  /** Undefined under no rollout prefix. */
  readonly rollout: Rollout | undefined;
  readonly captured: boolean;
}

/** @throws RequestError 400 or 403 (G2). */
export function authorise(
  target: RolloutPath,
  headers: IncomingHttpHeaders,
  rules: AccessRules,
): Access {
  if (target.scope === "plain") return { rollout: undefined, captured: false };
  const { rolloutId } = target;
  const captured = target.scope === "captured";
  if (captured && !rules.captureEnabled)
    throw new RequestError(
      400,
      "the URL asks for training-token-capture, but token_id_capture.enabled is false on this server",
    );
  const rollout = rules.rollouts.get(rolloutId);
  if (rollout === undefined) throw new RequestError(403, `rollout ${rolloutId} is not open`);
  if (rules.requireRolloutKey && !presentsKey(headers, rollout.key(rules.keySecret)))
    throw new RequestError(403, `the API key is not the key of rollout ${rolloutId}`); // G1
  if (rollout.isSealed) throw new RequestError(403, `rollout ${rolloutId} is sealed`);
  if (captured !== rollout.captured)
    throw new RequestError(
      403,
      rollout.captured
        ? `rollout ${rolloutId} is captured: call it under /training-token-capture`
        : `rollout ${rolloutId} was opened without token capture`,
    );
  return { rollout, captured };
}
