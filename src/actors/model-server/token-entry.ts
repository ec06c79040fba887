import {
  contextDigest,
  FINGERPRINT_VERSION,
  type OutputItem,
  SCHEMA_VERSION,
  type TokenEntry,
} from "../../capture/index.js";
import { generationProblem, promptProblem, type TokenGeneration } from "./engines/engine.js";
import type { ModelRequest, ServedReply } from "./model-request.js";
import type { Prompt } from "./prompt.js";
import type { PinnedSampling } from "./sampling-pin.js";

/** All that is known of a call when it is recorded. */
export interface FinishedCall {
  readonly rolloutId: string;
  readonly callId: string;
  readonly request: ModelRequest;
  readonly prompt: Prompt;
  readonly sampling: PinnedSampling;
  readonly generation: TokenGeneration;
  /** What the server counted; an engine that pins its weights knows better. */
  readonly versions: { readonly start: number; readonly end: number };
  readonly reply: ServedReply;
  readonly createdAtMs: number;
  readonly vocabularySize: number;
}

/** @throws RangeError when the engine's arrays fail a check; they are checked before they become typed arrays. */
export function tokenEntry(call: FinishedCall): TokenEntry {
  const { request, prompt, generation, reply } = call;
  const problem =
    generationProblem(generation, call.vocabularySize) ?? promptProblem(generation, prompt.ids);
  if (problem !== null) throw new RangeError(problem);
  const { conversation } = request;
  const items = outputItems(reply);
  return {
    schema_version: SCHEMA_VERSION,
    rollout_id: call.rolloutId,
    model_call_id: call.callId,
    model: conversation.model,
    prompt_token_ids: prompt.ids,
    generation_token_ids: Int32Array.from(generation.tokenIds),
    generation_log_probs: Float64Array.from(generation.logProbs),
    output_items: items,
    token_item_index: items.length === 0 ? null : items.length - 1,
    created_at: call.createdAtMs / 1000,
    policy_version_start: generation.policyVersionStart ?? call.versions.start,
    policy_version_end: generation.policyVersionEnd ?? call.versions.end,
    ...(generation.policyVersionSpans === undefined
      ? {}
      : { policy_version_spans: generation.policyVersionSpans }),
    finish_reason: generation.finishReason,
    sampling: call.sampling,
    logprobs_mode: generation.logprobsMode,
    parent_resolution: prompt.resolution,
    ...(prompt.parentCallId === undefined ? {} : { parent_call_id: prompt.parentCallId }),
    ...(prompt.reason === undefined ? {} : { parent_resolution_reason: prompt.reason }),
    cum_len: prompt.ids.length + generation.tokenIds.length,
    purpose: request.purpose,
    tools_offered: conversation.tools.length,
    served_message_id: reply.messageId,
    served_tool_call_ids: reply.toolCalls.map((toolCall) => toolCall.id),
    context_digest: contextDigest(conversation, conversation.messages.length),
    context_length: conversation.messages.length,
    fingerprint_version: FINGERPRINT_VERSION,
    served_text: reply.text,
    served_tool_calls: reply.toolCalls,
  };
}

/** The answer as Responses items: reasoning, a message when there is text, then each tool call. */
function outputItems(reply: ServedReply): OutputItem[] {
  const items: OutputItem[] = [];
  if (reply.reasoning !== "")
    items.push({ type: "reasoning", summary: [{ type: "summary_text", text: reply.reasoning }] });
  if (reply.text !== "")
    items.push({
      type: "message",
      id: reply.messageId,
      role: "assistant",
      status: "completed",
      content: [{ type: "output_text", text: reply.text, annotations: [] }],
    });
  for (const call of reply.toolCalls)
    items.push({
      type: "function_call",
      call_id: call.id,
      name: call.name,
      arguments: JSON.stringify(call.arguments),
      status: "completed",
    });
  return items;
}
