/** The seam to whatever samples tokens. */
import type { LogprobsMode } from "../../../capture/index.js";
import type { PolicySnapshot } from "../../../embedded-policy/index.js";
import type { PinnedSampling } from "../sampling-pin.js";

export interface TokenRequest {
  /** int32[P]. */
  readonly promptIds: Int32Array;
  readonly sampling: PinnedSampling;
  /** Contract: the engine stops work for this call when it fires. */
  readonly signal: AbortSignal;
}

/** What an engine answered, as it answered it: not checked yet, so a fraction or a NaN is still visible. */
export interface TokenGeneration {
  /** [G], the end-of-turn token included when it was sampled. */
  readonly tokenIds: ArrayLike<number>;
  /** [G], natural log. */
  readonly logProbs: ArrayLike<number>;
  readonly logprobsMode: LogprobsMode;
  readonly finishReason: "stop" | "length";
  /** Versions that may have sampled it; absent when the engine cannot tell: then the server's own count stands. */
  readonly policyVersionStart?: number;
  readonly policyVersionEnd?: number;
}

/** Token ids in, token ids and log probabilities out. */
export interface TokenEngine {
  generate(request: TokenRequest): Promise<TokenGeneration>;
  /** New weights for an engine that holds its own; calls that began keep theirs. */
  setPolicy?(snapshot: PolicySnapshot): void;
  /** Idempotent. */
  close(): Promise<void>;
}

/** What is wrong with a generation, or null. The same bounds as the record's: see `TokenEntry`. */
export function generationProblem(
  generation: TokenGeneration,
  vocabularySize: number,
): string | null {
  const { tokenIds, logProbs } = generation;
  if (tokenIds.length !== logProbs.length)
    return `engine sent ${tokenIds.length} token ids and ${logProbs.length} log probabilities`;
  for (let i = 0; i < tokenIds.length; i++) {
    const id = tokenIds[i];
    if (!isTokenId(id, vocabularySize))
      return `token id ${String(id)} at ${i} is no integer in [0, ${vocabularySize})`;
    const logProb = logProbs[i];
    if (typeof logProb !== "number" || !(logProb <= 1e-6 && logProb > -1000))
      return `log probability ${String(logProb)} at ${i} is not in (-1000, 0]`;
  }
  return null;
}

function isTokenId(id: number | undefined, vocabularySize: number): id is number {
  return id !== undefined && Number.isInteger(id) && id >= 0 && id < vocabularySize;
}
