/**
 * The engine of a fresh machine: the embedded policy, run in the worker's own thread.
 *
 * B1. One call at a time, and the event loop runs between two calls: a burst of one rollout does not keep the others'
 *     requests, or a client's disconnect, from being seen.
 * B2. A call pins its snapshot at start: weights that change meanwhile are the next call's.
 */
import { setImmediate as nextTurn } from "node:timers/promises";
import type { EmbeddedPolicy, PolicySnapshot } from "../../../embedded-policy/index.js";
import {
  FULL_CAPABILITIES,
  type TokenEngine,
  type TokenGeneration,
  type TokenRequest,
} from "./engine.js";
import { EngineError } from "./engine-error.js";

export class EmbeddedEngine implements TokenEngine {
  readonly capabilities = FULL_CAPABILITIES;
  readonly #policy: Pick<EmbeddedPolicy, "generate">;
  #snapshot: PolicySnapshot;
  #tail: Promise<void> = Promise.resolve();

  constructor(policy: Pick<EmbeddedPolicy, "generate">, snapshot: PolicySnapshot) {
    this.#policy = policy;
    this.#snapshot = snapshot;
  }

  setPolicy(snapshot: PolicySnapshot): void {
    this.#snapshot = snapshot;
  }

  generate(request: TokenRequest): Promise<TokenGeneration> {
    const turn = this.#tail.then(() => nextTurn()); // B1
    const result = turn.then(() => this.#generateNow(request));
    this.#tail = result.then(
      () => undefined,
      () => undefined,
    );
    return result;
  }

  #generateNow({ promptIds, sampling, signal }: TokenRequest): TokenGeneration {
    signal.throwIfAborted();
    if (sampling.min_p > 0)
      throw new EngineError("ENGINE_REFUSED", "the embedded engine has no min_p");
    const snapshot = this.#snapshot; // B2
    const generation = this.#policy.generate(snapshot, promptIds, {
      temperature: sampling.temperature,
      topP: sampling.top_p,
      topK: sampling.top_k,
      seed: sampling.seed,
      maxTokens: sampling.max_tokens,
    });
    return {
      tokenIds: generation.tokenIds,
      logProbs: generation.processedLogProbs,
      logprobsMode: "processed",
      finishReason: generation.finishReason,
      policyVersionStart: snapshot.version,
      policyVersionEnd: snapshot.version,
    };
  }

  async close(): Promise<void> {
    await this.#tail;
  }
}
