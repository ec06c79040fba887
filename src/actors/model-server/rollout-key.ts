import { createHmac, timingSafeEqual } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";

/** The API key of one rollout: HMAC-SHA256 over its id and epoch, base64url. Dead once the epoch moves. */
export function rolloutKey(secret: Uint8Array, rolloutId: string, epoch: number): string {
  const mac = createHmac("sha256", secret).update(`${rolloutId}\n${epoch}`).digest("base64url");
  return `corral-${mac}`;
}

/** True when the request presents the key, as `x-api-key` or as a bearer token; compared in constant time. */
export function presentsKey(headers: IncomingHttpHeaders, expected: string): boolean {
  const bearer = /^Bearer +(\S+)$/i.exec(headers.authorization ?? "")?.[1];
  return [headers["x-api-key"], bearer].some(
    (presented) => typeof presented === "string" && equalKeys(presented, expected),
  );
}

function equalKeys(presented: string, expected: string): boolean {
  const left = Buffer.from(presented);
  const right = Buffer.from(expected);
  return left.length === right.length && timingSafeEqual(left, right);
}
