import fc from "fast-check";
import type { ServedReply } from "../../src/actors/model-server/model-request.js";

/** Any answer of a call, as a dialect with these ids gets it. */
export function arbitraryReply(messageId: string, toolPrefix: string): fc.Arbitrary<ServedReply> {
  return fc.record({
    messageId: fc.constant(messageId),
    model: fc.string(),
    createdAtS: fc.nat(),
    reasoning: fc.string({ unit: "binary" }),
    text: fc.string({ unit: "binary" }),
    toolCalls: fc.uniqueArray(
      fc.record({
        id: fc.nat().map((n) => `${toolPrefix}${n}`),
        name: fc.string(),
        arguments: fc.dictionary(fc.string(), fc.jsonValue()),
      }),
      { maxLength: 3, selector: ({ id }) => id },
    ),
    finishReason: fc.constantFrom("stop" as const, "length" as const),
    stopSequence: fc.constantFrom(null, "END"),
    tokens: fc.option(
      fc.array(fc.record({ text: fc.string(), logProb: fc.double({ min: -50, max: 0 }) })),
    ),
    inputTokens: fc.nat(),
    outputTokens: fc.nat(),
  });
}
