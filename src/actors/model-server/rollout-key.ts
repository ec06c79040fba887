import { createHmac, timingSafeEqual } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";

/** The API key of one rollout: HMAC-SHA256 over its id and epoch, base64url. Dead once the epoch moves. */
export function rolloutKey(secret: Uint8Array, rolloutId: string, epoch: number): string {
  const mac = createHmac("sha256", secret).update(`${rolloutId}\n${epoch}`).digest("base64url");
  return `corral-${mac}`;
}

/** True when the request presents the key, compared in constant time. */
export function presentsKey(headers: IncomingHttpHeaders, expected: string): boolean {
  const presented = presentedKey(headers);
  if (presented === undefined) return false;
  const left = Buffer.from(presented);
  const right = Buffer.from(expected);
  return left.length === right.length && timingSafeEqual(left, right);
}

function presentedKey(headers: IncomingHttpHeaders): string | undefined {
  const apiKey = headers["x-api-key"];
  if (typeof apiKey === "string" && apiKey !== "") return apiKey;
  const bearer = /^Bearer +(\S+)$/i.exec(headers.authorization ?? "");
  return bearer?.[1];
}
