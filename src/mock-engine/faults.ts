/**
 * What real inference servers have been seen to do wrong, on request.
 *
 * Each kind spoils one answer. Sources are public reports: ids hidden by a tool parser, −9999 for a missing log
 * probability, NaN out of a kernel, an abort that looks like an end.
 */
import type { MockAnswer } from "./answer.js";

/** Faults of the answer's content. */
const CONTENT_FAULTS = {
  missing_ids: (answer: MockAnswer) => ({ ...answer, tokenIds: undefined }),
  missing_logprobs: (answer: MockAnswer) => ({ ...answer, logProbs: undefined }),
  short_logprobs: (answer: MockAnswer) => ({ ...answer, logProbs: answer.logProbs?.slice(0, -1) }),
  null_logprob: (answer: MockAnswer) => withLogProb(answer, null),
  nan_logprob: (answer: MockAnswer) => withLogProb(answer, Number.NaN),
  sentinel_logprob: (answer: MockAnswer) => withLogProb(answer, -9999),
  positive_logprob: (answer: MockAnswer) => withLogProb(answer, 0.5),
  usage_mismatch: (answer: MockAnswer) => ({
    ...answer,
    completionTokens: answer.completionTokens + 19,
  }),
  id_out_of_range: (answer: MockAnswer) => ({
    ...answer,
    tokenIds: answer.tokenIds?.map((id, at) => (at === 0 ? 2_000_000_000 : id)),
  }),
  fractional_id: (answer: MockAnswer) => ({
    ...answer,
    tokenIds: answer.tokenIds?.map((id, at) => (at === 0 ? id + 0.5 : id)),
  }),
  other_prompt: (answer: MockAnswer) => ({
    ...answer,
    promptIds: answer.promptIds.slice(1),
    promptTokens: answer.promptTokens - 1,
  }),
  abort: (answer: MockAnswer) => ({ ...answer, finishReason: "abort" as const }),
} satisfies Record<string, (answer: MockAnswer) => MockAnswer>;

/** Faults of the transport. */
const TRANSPORT_FAULTS = [
  "status_429",
  "status_500",
  "status_503",
  "stall",
  "reset",
  "reset_in_body",
  "stream_without_space",
  "no_json",
] as const;

type ContentFault = keyof typeof CONTENT_FAULTS;
export type TransportFault = (typeof TRANSPORT_FAULTS)[number];
export type MockFault = ContentFault | TransportFault;

export const MOCK_FAULTS: readonly MockFault[] = [
  ...(Object.keys(CONTENT_FAULTS) as ContentFault[]),
  ...TRANSPORT_FAULTS,
];

export function isMockFault(name: string): name is MockFault {
  return (MOCK_FAULTS as readonly string[]).includes(name);
}

export function isTransportFault(fault: MockFault): fault is TransportFault {
  return (TRANSPORT_FAULTS as readonly string[]).includes(fault);
}

/** The answer with the fault in it; a transport fault leaves it as it is. */
export function spoil(answer: MockAnswer, fault: MockFault | null): MockAnswer {
  if (fault === null || isTransportFault(fault)) return answer;
  return CONTENT_FAULTS[fault](answer);
}

function withLogProb(answer: MockAnswer, value: number | null): MockAnswer {
  const at = Math.floor((answer.logProbs?.length ?? 0) / 2);
  return { ...answer, logProbs: answer.logProbs?.map((old, i) => (i === at ? value : old)) };
}
