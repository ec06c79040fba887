/**
 * One model call, captured or not, from the parsed request to the answer. HTTP is not known here.
 *
 * Order: id → parent → durable intent → sampling pin → engine → check → durable record → answer.
 *
 * K1. The answer exists only after the record is durable, or known to be lost.
 * K2. Capture never changes an answer and never fails a call.
 * K3. A call that produced no tokens ends as failed or aborted, and tells its client.
 */

import type { TokenLineage } from "../../capture/index.js";
import { CallRecorder, type RecorderServices } from "./call-recorder.js";
import type { CaptureClient } from "./capture-client.js";
import { untilAborted, withDeadline } from "./clock.js";
import type { TokenEngine, TokenGeneration } from "./engines/engine.js";
import type { ModelRequest, ReplyHead, ServedReply } from "./model-request.js";
import type { SamplingOverrides } from "./options.js";
import type { PolicyVersions } from "./policy-versions.js";
import { continuedPrompt, type Prompt } from "./prompt.js";
import type { Renderer } from "./renderers/renderer.js";
import { RequestError } from "./request-error.js";
import type { AdmittedCall, Rollout } from "./rollouts.js";
import { callSeed, type PinnedSampling, pinSampling } from "./sampling-pin.js";
import { mintCallId, servedMessageId } from "./served-ids.js";
import { servedReply } from "./served-reply.js";
import { stopAt } from "./stop-sequences.js";
import { tokenEntry } from "./token-entry.js";

export interface CallServices extends Omit<RecorderServices, "sink"> {
  readonly engine: TokenEngine;
  readonly renderer: Renderer;
  /** Null when capture is off. */
  readonly capture: CaptureClient | null;
  readonly samplingOverrides: SamplingOverrides;
  readonly runSeed: number;
  readonly versions: PolicyVersions;
}

export interface CallScope {
  /** Undefined under no rollout prefix. */
  readonly rollout: Rollout | undefined;
  readonly captured: boolean;
  readonly signal: AbortSignal;
  /** Contract: called once, before the engine is. */
  readonly onHead: (head: ReplyHead) => void;
}

/** @throws RequestError when the engine fails; the signal's reason when the call was aborted. */
export async function runModelCall(
  services: CallServices,
  request: ModelRequest,
  scope: CallScope,
): Promise<ServedReply> {
  const callId = mintCallId();
  const { rollout, signal } = scope;
  const { capture } = services;
  const recorder =
    scope.captured && rollout !== undefined && capture !== null
      ? new CallRecorder({ ...services, sink: capture.sink }, rollout, callId)
      : null;
  const prompt = await untilAborted(promptOf(services, request, recorder && rollout), signal);
  const head: ReplyHead = {
    messageId: servedMessageId(callId, request.idPrefixes.message),
    model: request.conversation.model,
    createdAtS: Math.floor(services.clock.nowMs() / 1000),
    inputTokens: prompt.ids.length,
  };
  scope.onHead(head);
  await recorder?.begin();
  const seed = callSeed(services.runSeed, rollout?.id, callId);
  const sampling = pinSampling(request.sampling, services.samplingOverrides, seed);
  const versionsOf = services.versions.track();
  const sampled = await generate(services, prompt, sampling, signal, recorder);
  const versions = versionsOf();
  const { generation, reply } = await answerOf(services, request, callId, head, sampled, recorder);
  // K1, K2
  await recorder?.record((rolloutId) =>
    tokenEntry({
      rolloutId,
      callId,
      request,
      prompt,
      sampling,
      generation,
      versions,
      reply,
      createdAtMs: services.clock.nowMs(),
      vocabularySize: services.renderer.vocabularySize,
    }),
  );
  if (recorder !== null && rollout !== undefined) watchDelivery(rollout, callId, signal);
  return reply;
}

/** From its record on, only a client that goes away, or seal, aborts a call: then its answer may not have arrived. */
function watchDelivery(rollout: Rollout, callId: string, signal: AbortSignal): void {
  const undelivered = () => rollout.countUndelivered(callId);
  if (signal.aborted) undelivered();
  else signal.addEventListener("abort", undelivered, { once: true });
}

function abortedByClient(): RequestError {
  return new RequestError(529, "the client went away");
}

/**
 * The prompt of a request; `rollout` is given for captured calls only, and only they ask the lineage.
 *
 * @throws RequestError 400 when the request cannot be rendered: no retry would change that.
 */
export async function promptOf(
  services: CallServices,
  request: ModelRequest,
  rollout: Rollout | null | undefined,
): Promise<Prompt> {
  const { renderer } = services;
  try {
    if (!rollout)
      return { ids: await renderer.promptIds(request.conversation), resolution: "ROOT" };
    return await continuedPrompt(
      request.conversation,
      rollout.id,
      boundedLineage(services),
      renderer,
    );
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    throw new RequestError(400, `the request cannot be rendered: ${message}`, { cause: error });
  }
}

/** A lineage that does not answer in time makes a new segment, not a hanging call. */
function boundedLineage({ capture, clock, putTimeoutMs }: CallServices): TokenLineage | null {
  const lineage = capture?.lineage ?? null;
  if (lineage === null) return null;
  const bounded = <T>(answer: Promise<T>) =>
    withDeadline(answer, "the lineage", putTimeoutMs, clock);
  return {
    candidates: (rolloutId, key) => bounded(lineage.candidates(rolloutId, key)),
    cumulativeIds: (rolloutId, callId) => bounded(lineage.cumulativeIds(rolloutId, callId)),
  };
}

async function generate(
  services: CallServices,
  prompt: Prompt,
  sampling: PinnedSampling,
  signal: AbortSignal,
  recorder: CallRecorder | null,
): Promise<TokenGeneration> {
  try {
    return await untilAborted(
      services.engine.generate({ promptIds: prompt.ids, sampling, signal }),
      signal,
    );
  } catch (error) {
    if (signal.aborted) {
      await recorder?.end("aborted"); // K3
      throw error;
    }
    await recorder?.end("failed");
    services.logger.error({ error }, "the engine failed");
    const message = error instanceof Error ? error.message : String(error);
    throw new RequestError(529, `the engine failed: ${message}`, { cause: error, retryAfterS: 1 });
  }
}

/** Ids that cannot be read at all are no answer: the call failed. */
async function answerOf(
  { renderer }: CallServices,
  request: ModelRequest,
  callId: string,
  head: ReplyHead,
  sampled: TokenGeneration,
  recorder: CallRecorder | null,
): Promise<{ generation: TokenGeneration; reply: ServedReply }> {
  try {
    const { generation, stopSequence } = stopAt(sampled, request.stopSequences, (ids) =>
      renderer.decode(ids),
    );
    const reply = servedReply(request, head, callId, generation, stopSequence, renderer);
    return { generation, reply };
  } catch (error) {
    await recorder?.end("failed");
    throw new RequestError(529, "the engine sent ids outside the vocabulary", {
      cause: error,
      retryAfterS: 1,
    });
  }
}

/** Ties an admitted call to its client: whichever goes first aborts it. */
export function abortWith(call: AdmittedCall, clientGone: AbortSignal): void {
  const onAbort = () => call.abort(abortedByClient());
  if (clientGone.aborted) onAbort();
  else clientGone.addEventListener("abort", onAbort, { once: true });
}
