/** What a mock engine is told at start. */
import type { PolicySnapshot } from "../embedded-policy/index.js";
import type { ScriptedAnswer } from "./answer.js";
import type { MockFault } from "./faults.js";

/** Whose HTTP it speaks. */
export const MOCK_SHAPES = ["vllm", "sglang", "llama_cpp"] as const;
export type MockShape = (typeof MOCK_SHAPES)[number];

export interface MockEngineOptions {
  readonly shape: MockShape;
  /** 0 takes a free port. @default 0 */
  readonly port?: number;
  /** Weights to sample from. Default: the untrained policy. */
  readonly policy?: PolicySnapshot;
  /** Answers in order; after the last one the policy samples. */
  readonly script?: readonly ScriptedAnswer[];
  /** Faults of the first generation calls, in order; null is none. */
  readonly faults?: readonly (MockFault | null)[];
  /** @default "policy" */
  readonly servedModelName?: string;
  /** Tokens of prompt and answer together. @default 262144 */
  readonly maxModelLen?: number;
  /** As vLLM's flag, whose default is raw. @default "raw_logprobs" */
  readonly logprobsMode?: "raw_logprobs" | "processed_logprobs";
  /** As vLLM's `--enable-auto-tool-choice` with a parser: without it, chats with tools are refused. @default false */
  readonly autoToolChoice?: boolean;
  /** What llama.cpp's `/props` shows; chats are rendered with Qwen3's whatever it is. Default: Qwen3's. */
  readonly chatTemplate?: string;
  /** vLLM's `/inference/v1/generate`. @default true */
  readonly generateEndpoint?: boolean;
}
