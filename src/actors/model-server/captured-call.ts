/**
 * One model call, captured or not, from the parsed request to the answer. HTTP is not known here.
 *
 * Order: id → parent → sampling pin → intent → engine → check → record → answer. The intent reaches the disk while the
 * engine works.
 *
 * K1. The answer exists only after intent and record are durable, or known to be lost.
 * K2. Capture never changes an answer and never fails a call.
 * K3. A call that produced no tokens ends as failed or aborted, and tells its client.
 */

import { contextDigest, type TokenLineage } from "../../capture/index.js";
import { CallRecorder, type RecorderServices } from "./call-recorder.js";
import type { CaptureClient } from "./capture-client.js";
import { untilAborted, withDeadline } from "./clock.js";
import type { ChatEngine, ChatGeneration } from "./engines/engine.js";
import { engineErrorCode } from "./engines/engine-error.js";
import type { ModelRequest, ReplyHead, ServedReply, ToolChoice } from "./model-request.js";
import type { SamplingOverrides } from "./options.js";
import type { PolicyVersions } from "./policy-versions.js";
import { continuedPrompt, type PreparedPrompt, settledPrompt } from "./prompt.js";
import { RequestError } from "./request-error.js";
import type { AdmittedCall, Rollout } from "./rollouts.js";
import { callSeed, clampToContext, type PinnedSampling, pinSampling } from "./sampling-pin.js";
import { mintCallId, servedMessageId } from "./served-ids.js";
import { servedReply } from "./served-reply.js";
import { tokenEntry } from "./token-entry.js";
import type { TurnHealth } from "./turn-health.js";

export interface CallServices extends Omit<RecorderServices, "sink" | "ordersWrites"> {
  readonly engine: ChatEngine;
  /** Null when capture is off. */
  readonly capture: CaptureClient | null;
  readonly samplingOverrides: SamplingOverrides;
  readonly runSeed: number;
  readonly turnHealth: TurnHealth;
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
      ? new CallRecorder({ ...services, ...capture }, rollout, callId)
      : null;
  if (recorder !== null && !services.engine.capabilities.tokenIds)
    throw new RequestError(
      400,
      "the engine of this model tells no token ids: nothing can be captured",
    );
  refuseForced(request.toolChoice, services.engine);
  const prompt = await untilAborted(promptOf(services, request, recorder && rollout), signal);
  const seed = callSeed(services.runSeed, rollout?.id, callId);
  const sampling = clampToContext(
    pinSampling(request.sampling, services.samplingOverrides, seed),
    prompt.ids?.length,
    services.engine.capabilities.contextTokens,
  );
  const head: ReplyHead = {
    messageId: servedMessageId(callId, request.idPrefixes.message),
    model: request.conversation.model,
    createdAtS: Math.floor(services.clock.nowMs() / 1000),
    // Where only the engine knows the prompt, the count comes with the answer.
    inputTokens: prompt.ids?.length ?? 0,
  };
  scope.onHead(head);
  recorder?.begin(prompt.ids);
  const versionsOf = services.versions.track();
  const generation = await generate(services, request, { prompt, sampling, scope }, recorder);
  const versions = versionsOf();
  services.turnHealth.see(generation.turn, request.conversation.tools.length > 0);
  const reply = servedReply(request, head, callId, generation);
  // K1, K2
  const isRecorded = await recorder?.record((rolloutId) =>
    tokenEntry({
      rolloutId,
      callId,
      request,
      prompt: settledPrompt(prompt, generation),
      sampling,
      generation,
      versions,
      reply,
      createdAtMs: services.clock.nowMs(),
      vocabularySize: services.engine.vocabularySize,
    }),
  );
  if (recorder !== null && rollout !== undefined) {
    // What was recorded was hashed: to hash its frame again cannot fail the call (K2).
    if (isRecorded) noteCompaction(rollout, request, reply);
    watchDelivery(rollout, callId, signal);
  }
  return reply;
}

/** @throws RequestError 400 when the choice forces a call: sampled under force, tokens are not the policy's. */
function refuseForced(choice: ToolChoice, { capabilities }: ChatEngine): void {
  if (choice === "auto" || choice === "none" || capabilities.forcesToolCalls === true) return;
  const asked = choice === "required" ? "a tool call" : `a call of ${JSON.stringify(choice.name)}`;
  throw new RequestError(
    400,
    `tool_choice asks to force ${asked}, and this model samples its own tokens only; allowed: auto, none`,
  );
}

/** What comes next may begin with its summary. */
function noteCompaction(rollout: Rollout, request: ModelRequest, { text }: ServedReply): void {
  if (request.purpose !== "compaction") return;
  const frameDigest = contextDigest(request.conversation, 0);
  rollout.noteCompaction({ servedText: text, frameDigest });
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
): Promise<PreparedPrompt> {
  const { engine } = services;
  const { conversation } = request;
  try {
    if (!rollout) return { ids: (await engine.prompt(conversation)).ids, resolution: "ROOT" };
    return await continuedPrompt(conversation, rollout, boundedLineage(services), engine);
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

interface Dispatch {
  readonly prompt: PreparedPrompt;
  readonly sampling: PinnedSampling;
  readonly scope: CallScope;
}

async function generate(
  { engine, logger }: CallServices,
  { conversation, stopSequences, toolChoice }: ModelRequest,
  { prompt, sampling, scope: { rollout, signal } }: Dispatch,
  recorder: CallRecorder | null,
): Promise<ChatGeneration> {
  const affinity = rollout === undefined ? {} : { affinity: rollout.id };
  try {
    return await untilAborted(
      engine.generate({
        conversation,
        prompt,
        sampling,
        stopSequences,
        toolChoice,
        signal,
        ...affinity,
      }),
      signal,
    );
  } catch (error) {
    if (signal.aborted) {
      await recorder?.end("aborted"); // K3
      throw error;
    }
    await recorder?.end("failed");
    logger.error({ error }, "the engine failed");
    const message = error instanceof Error ? error.message : String(error);
    // What the engine refused it would refuse again; a harness must not retry it for minutes.
    if (engineErrorCode(error) === "ENGINE_REFUSED")
      throw new RequestError(400, `the engine refused the request: ${message}`, { cause: error });
    throw new RequestError(529, `the engine failed: ${message}`, { cause: error, retryAfterS: 1 });
  }
}

/** Ties an admitted call to its client: whichever goes first aborts it. */
export function abortWith(call: AdmittedCall, clientGone: AbortSignal): void {
  const onAbort = () => call.abort(abortedByClient());
  if (clientGone.aborted) onAbort();
  else clientGone.addEventListener("abort", onAbort, { once: true });
}
