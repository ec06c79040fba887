/**
 * What a harness makes a call for, by published rules on headers and shape. A label for people, for delivery modes, and
 * for lineage behind a compaction; it decides no token.
 *
 * Q1. `x-ng-call-purpose` says it: a harness of one's own names the purpose itself.
 * Q2. `x-claude-code-agent-id`, or `cc_is_subagent=true` in the billing line: a sub-agent of Claude Code.
 * Q3. `x-parent-session-id`: a sub-agent of opencode.
 * Q4. The last user text asks to "Respond with TEXT ONLY": Claude Code's compaction, which has the main call's headers.
 * Q5. No tools, and an answer of the form { title } or opencode's `x-session-id`: a title.
 * Q6. Anything else is main. A toolless call beside calls with tools is told apart when the rollout is built.
 */
import type { IncomingHttpHeaders } from "node:http";
import { CALL_PURPOSES, type CallPurpose } from "../../../capture/index.js";
import { RequestError } from "../request-error.js";

const PURPOSE_HEADER = "x-ng-call-purpose";

/** What of a request tells its purpose. */
export interface CallShape {
  /** Tools offered, of any type. */
  readonly toolCount: number;
  /** First line of the system prompt as it was sent, the billing line included. */
  readonly systemStart: string;
  /** Text of the last block, when the last message is the user's. */
  readonly lastUserText: string;
  /** The answer must be an object with a title. */
  readonly asksTitle: boolean;
}

const SUBAGENT_BILLING = /^x-anthropic-billing-header:.*cc_is_subagent=true/;
const COMPACTION_INSTRUCTION = "Respond with TEXT ONLY";

/** @throws RequestError 400 when the purpose header names no purpose. */
export function callPurpose(shape: CallShape, headers: IncomingHttpHeaders): CallPurpose {
  const named = headers[PURPOSE_HEADER];
  if (named !== undefined) return namedPurpose(String(named)); // Q1
  if (headers["x-claude-code-agent-id"] !== undefined) return "subagent"; // Q2
  if (SUBAGENT_BILLING.test(shape.systemStart)) return "subagent"; // Q2
  if (headers["x-parent-session-id"] !== undefined) return "subagent"; // Q3
  if (shape.lastUserText.includes(COMPACTION_INSTRUCTION)) return "compaction"; // Q4
  const isOpencode = headers["x-session-id"] !== undefined;
  return shape.toolCount === 0 && (shape.asksTitle || isOpencode) ? "title" : "main"; // Q5, Q6
}

function namedPurpose(name: string): CallPurpose {
  const purpose = CALL_PURPOSES.find((known) => known === name);
  if (purpose !== undefined) return purpose;
  const allowed = CALL_PURPOSES.join(", ");
  throw new RequestError(400, `${PURPOSE_HEADER} is ${JSON.stringify(name)}; allowed: ${allowed}`);
}
