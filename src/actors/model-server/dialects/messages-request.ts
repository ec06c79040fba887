/**
 * Anthropic Messages bodies into conversations.
 *
 * N1. String and block forms of one content are one conversation; `cache_control` and unknown keys leave no trace.
 * N2. The billing line is dropped only where Claude Code puts it: as the first line of the system prompt.
 * N3. A wrong type is refused with the path of its field; what is merely unknown is not.
 */
import type { IncomingHttpHeaders } from "node:http";
import type { ToolSpecification } from "../../../capture/index.js";
import { givenSampling, type ModelRequest, type ToolChoice } from "../model-request.js";
import { checkedBody, contentText } from "./body.js";
import { MessagesBody } from "./messages-body.js";
import { conversationMessages } from "./messages-history.js";
import { messagesPurpose } from "./messages-purpose.js";

const BILLING_LINE = /^x-anthropic-billing-header:[^\n]*(?:\n|$)/;

/** @throws RequestError 400 naming the field that is wrong. */
export function parseMessagesRequest(body: unknown, headers: IncomingHttpHeaders): ModelRequest {
  const request = checkedBody(MessagesBody, body); // N3
  const rawSystem = contentText(request.system ?? "", "system");
  const { temperature, top_p, top_k, max_tokens, seed } = request;
  return {
    conversation: {
      model: request.model,
      system: rawSystem.replace(BILLING_LINE, ""), // N2
      tools: toolSpecifications(request),
      messages: conversationMessages(request),
    },
    stream: request.stream ?? false,
    sampling: givenSampling({ temperature, top_p, top_k, max_tokens, seed }),
    stopSequences: request.stop_sequences ?? [],
    toolChoice: toolChoiceOf(request),
    wantsLogprobs: false,
    idPrefixes: { message: "msg_", toolCall: "toolu_" },
    purpose: messagesPurpose(request, rawSystem, headers),
  };
}

function toolChoiceOf({ tool_choice: choice }: MessagesBody): ToolChoice {
  if (choice?.type === "none") return "none";
  if (choice?.type === "any") return "required";
  return choice?.type === "tool" ? { name: String(choice["name"]) } : "auto";
}

/** Tools that the server would run have no schema; the policy is not told of them. */
function toolSpecifications(request: MessagesBody): ToolSpecification[] {
  return (request.tools ?? []).flatMap(({ name, description, input_schema }) =>
    name === undefined || input_schema === undefined
      ? []
      : [{ name, description: description ?? "", parameters: input_schema }],
  );
}
