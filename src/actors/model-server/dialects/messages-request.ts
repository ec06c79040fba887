/**
 * Anthropic Messages bodies into conversations.
 *
 * N1. String and block forms of one content are one conversation; `cache_control` and unknown keys leave no trace.
 * N2. The billing line is dropped only where Claude Code puts it: as the first line of the system prompt.
 * N3. A wrong type is refused with the path of its field; what is merely unknown is not.
 */
import type { IncomingHttpHeaders } from "node:http";
import type { SamplingParameters, ToolSpecification } from "../../../capture/index.js";
import type { ModelRequest } from "../model-request.js";
import { RequestError } from "../request-error.js";
import { contentText, MessagesBody } from "./messages-body.js";
import { conversationMessages } from "./messages-history.js";
import { messagesPurpose } from "./messages-purpose.js";

const BILLING_LINE = /^x-anthropic-billing-header:[^\n]*(?:\n|$)/;

/** @throws RequestError 400 naming the field that is wrong. */
export function parseMessagesRequest(body: unknown, headers: IncomingHttpHeaders): ModelRequest {
  const parsed = MessagesBody.safeParse(body);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    const path = issue === undefined || issue.path.length === 0 ? "body" : issue.path.join(".");
    throw new RequestError(400, `${path}: ${issue?.message ?? "invalid"}`); // N3
  }
  const request = parsed.data;
  const rawSystem = contentText(request.system ?? "", "system");
  return {
    conversation: {
      model: request.model,
      system: rawSystem.replace(BILLING_LINE, ""), // N2
      tools: toolSpecifications(request),
      messages: conversationMessages(request),
    },
    stream: request.stream ?? false,
    sampling: requestedSampling(request),
    purpose: messagesPurpose(request, rawSystem, headers),
  };
}

/** Tools that the server would run have no schema; the policy is not told of them. */
function toolSpecifications(request: MessagesBody): ToolSpecification[] {
  return (request.tools ?? []).flatMap(({ name, description, input_schema }) =>
    name === undefined || input_schema === undefined
      ? []
      : [{ name, description: description ?? "", parameters: input_schema }],
  );
}

function requestedSampling(request: MessagesBody): SamplingParameters {
  const { temperature, top_p, top_k, max_tokens, seed } = request;
  return {
    ...(temperature === undefined ? {} : { temperature }),
    ...(top_p === undefined ? {} : { top_p }),
    ...(top_k === undefined ? {} : { top_k }),
    ...(max_tokens === undefined ? {} : { max_tokens }),
    ...(seed === undefined ? {} : { seed }),
  };
}
