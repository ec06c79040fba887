/** The answer that a harness gets for generated ids. */
import type { TokenGeneration } from "./engines/engine.js";
import type { ModelRequest, ReplyHead, ServedReply, ServedToken } from "./model-request.js";
import type { Renderer } from "./renderers/renderer.js";
import { servedToolCallId } from "./served-ids.js";

/** @throws the renderer's error when the ids cannot be read at all. */
export function servedReply(
  request: ModelRequest,
  head: ReplyHead,
  callId: string,
  generation: TokenGeneration,
  stopSequence: string | null,
  renderer: Renderer,
): ServedReply {
  const turn = renderer.parseTurn(generation.tokenIds, { toolCalls: request.callsTools });
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
    tokens: request.wantsLogprobs ? servedTokens(generation, renderer) : null,
    outputTokens: generation.tokenIds.length,
  };
}

function beforeFirst(text: string, stop: string): string {
  const at = text.indexOf(stop);
  return at < 0 ? text : text.slice(0, at);
}

function servedTokens({ tokenIds, logProbs }: TokenGeneration, renderer: Renderer): ServedToken[] {
  return Array.from(tokenIds, (id, index) => ({
    text: renderer.decode([id]),
    logProb: logProbs[index] ?? Number.NaN,
  }));
}
