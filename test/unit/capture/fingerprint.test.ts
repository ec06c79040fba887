/** The context digest: what it costs changes, what it is does not. */
import { createHash } from "node:crypto";
import fc from "fast-check";
import { expect, test } from "vitest";
import { canonicalJson } from "../../../src/capture/canonical-json.js";
import { type Conversation, contextDigest } from "../../../src/capture/index.js";

/** Canonical JSON by recursion, as a text-book would have it. */
function reference(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(reference).join(",")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const members = Object.entries(value)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, item]) => `${JSON.stringify(key)}:${reference(item)}`);
  return `{${members.join(",")}}`;
}

test("canonical JSON is the value's JSON with its keys sorted", () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      expect(canonicalJson(value)).toBe(reference(value));
    }),
  );
});

test("canonical JSON of a value nested a hundred thousand levels deep", () => {
  let value: unknown = 0;
  for (let level = 0; level < 100_000; level++) value = [value];
  expect(canonicalJson(value)).toHaveLength(200_001);
});

const message = fc.oneof(
  fc.record({ role: fc.constantFrom("user" as const, "system" as const), text: fc.string() }),
  fc.record({
    role: fc.constant("tool" as const),
    toolCallId: fc.string(),
    text: fc.string(),
    isError: fc.boolean(),
  }),
  fc.record({
    role: fc.constant("assistant" as const),
    text: fc.string(),
    toolCalls: fc.array(
      fc.record({ id: fc.string(), name: fc.string(), arguments: fc.jsonValue() }),
      { maxLength: 2 },
    ),
  }),
);
const conversation = fc.record({
  model: fc.string(),
  system: fc.string(),
  tools: fc.array(
    fc.record({ name: fc.string(), description: fc.string(), parameters: fc.jsonValue() }),
    { maxLength: 2 },
  ),
  messages: fc.array(message, { maxLength: 8 }),
});

/** The digest of a conversation that was never asked for another. */
const afresh = (asked: Conversation, count: number) => contextDigest({ ...asked }, count);

test("a conversation's digests are the same in whatever order they are asked for", () => {
  fc.assert(
    fc.property(conversation, fc.array(fc.nat(9), { maxLength: 6 }), (asked, counts) => {
      for (const count of counts) expect(contextDigest(asked, count)).toBe(afresh(asked, count));
    }),
  );
});

test("the digest is sha256 over the canonical JSON of the context", () => {
  const asked: Conversation = {
    model: "m",
    system: "s",
    tools: [{ name: "t", description: "d", parameters: { b: 1, a: [] } }],
    messages: [
      { role: "user", text: "é" },
      {
        role: "assistant",
        text: " ",
        toolCalls: [{ id: "1", name: "t", arguments: { z: 1, y: 2 } }],
      },
    ],
  };
  const text =
    '{"messages":[["user","é"],["assistant","",[["1","t",{"y":2,"z":1}]]]],"model":"m","system":"s","tools":[["t","d",{"a":[],"b":1}]],"version":1}';
  expect(contextDigest(asked, 2)).toBe(createHash("sha256").update(text).digest("hex"));
});
