/** The answer that a harness gets for generated ids. */
import type { ChatGeneration } from "./engines/engine.js";
import type { ModelRequest, ReplyHead, ServedReply, ServedToken } from "./model-request.js";
import { servedToolCallId } from "./served-ids.js";

export function servedReply(
  request: ModelRequest,
  head: ReplyHead,
  callId: string,
  generation: ChatGeneration,
): ServedReply {
  const { turn, stopSequence, promptIds, promptTokens, completionTokens } = generation;
  const hasTools = turn.toolCalls.length > 0;
  const text = stopSequence === null ? turn.text : beforeFirst(turn.text, stopSequence);
  return {
    ...head,
    reasoning: turn.reasoning,
    // Claude Code drops a blank text block beside a tool call; what is served is what comes back.
    text: hasTools && text.trim() === "" ? "" : text,
    toolCalls: turn.toolCalls.map((call, index) => ({
      id: servedToolCallId(callId, index, request.idPrefixes.toolCall),
      name: call.name,
      arguments: call.arguments,
    })),
    finishReason: generation.finishReason,
    stopSequence,
    tokens: request.wantsLogprobs ? servedTokens(generation) : null,
    // 0 in the head where only the engine knows the prompt.
    inputTokens: head.inputTokens || (promptIds?.length ?? promptTokens ?? 0),
    outputTokens: generation.tokenIds.length || (completionTokens ?? 0),
  };
}

function beforeFirst(text: string, stop: string): string {
  const at = text.indexOf(stop);
  return at < 0 ? text : text.slice(0, at);
}

function servedTokens({ tokenTexts, logProbs }: ChatGeneration): ServedToken[] | null {
  if (tokenTexts === undefined) return null;
  return tokenTexts().map((text, index) => ({ text, logProb: logProbs[index] ?? Number.NaN }));
}
