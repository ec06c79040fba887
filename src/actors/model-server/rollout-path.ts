/**
 * Which rollout a URL belongs to.
 *
 * The path is read as it was sent: nothing is decoded, so an escaped id cannot become another one.
 *
 * P1. An id that is not a rollout id is refused, never rewritten.
 */
import { isRolloutId } from "../rollout.js";
import { RequestError } from "./request-error.js";

/** `plain`: no rollout. `correlated`: a rollout is named, nothing is captured. `captured`: every call is recorded. */
export type RolloutPath =
  | { readonly scope: "plain"; readonly path: string }
  | {
      readonly scope: "correlated" | "captured";
      readonly rolloutId: string;
      readonly path: string;
    };

const PREFIX = "/ng-rollout/";
const CAPTURE = "/training-token-capture";

/**
 * Splits a request target into its rollout prefix and the path under it (`""` or `/v1/…`, without the query).
 *
 * @throws RequestError 400 when the id is malformed.
 */
export function parseRolloutPath(target: string): RolloutPath {
  // A client that was told of a proxy sends the whole URL as its target.
  const path = target.replace(/^https?:\/\/[^/?#]*/i, "").split(/[?#]/, 1)[0] ?? "";
  if (path !== "/ng-rollout" && !path.startsWith(PREFIX)) return { scope: "plain", path };
  const afterPrefix = path.slice(PREFIX.length);
  const slash = afterPrefix.indexOf("/");
  const rolloutId = slash < 0 ? afterPrefix : afterPrefix.slice(0, slash);
  if (!isRolloutId(rolloutId)) {
    const shown = rolloutId.length > 40 ? `${rolloutId.slice(0, 40)}…` : rolloutId;
    throw new RequestError(
      400,
      `rollout id "${shown}" in the URL is malformed: allowed are 1 to 200 of A-Z a-z 0-9 . _ - , the first a letter or digit`,
    );
  }
  const rest = slash < 0 ? "" : afterPrefix.slice(slash);
  if (rest === CAPTURE || rest.startsWith(`${CAPTURE}/`))
    return { scope: "captured", rolloutId, path: rest.slice(CAPTURE.length) };
  return { scope: "correlated", rolloutId, path: rest };
}
