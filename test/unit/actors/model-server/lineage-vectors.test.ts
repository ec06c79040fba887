/**
 * Golden vectors of the context digest: one conversation, every body that means it, and the digest that another
 * program (Python's json and hashlib) computed for each of its prefixes.
 */
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import {
  type Conversation,
  contextDigest,
  FINGERPRINT_VERSION,
} from "../../../../src/capture/index.js";
import { conversationOf } from "../../../support/conversations.js";

interface Vector {
  readonly name: string;
  readonly conversation: Conversation;
  /** By number of messages. */
  readonly digests: readonly string[];
  readonly bodies: Readonly<Record<string, readonly object[]>>;
}

interface Golden {
  readonly fingerprint_version: number;
  readonly vectors: readonly Vector[];
}

const file = new URL("../../../fixtures/lineage/golden.json", import.meta.url);
const golden = JSON.parse(readFileSync(file, "utf8")) as Golden;

test("the vectors are of this build's fingerprint version", () => {
  expect(golden.fingerprint_version).toBe(FINGERPRINT_VERSION);
  expect(golden.vectors).toHaveLength(8);
});

describe.each(golden.vectors)("$name", ({ conversation, digests, bodies }) => {
  test("has the digests of another program, prefix by prefix", () => {
    expect(digests).toHaveLength(conversation.messages.length + 1);
    expect(digests.map((_, count) => contextDigest(conversation, count))).toEqual(digests);
    expect(new Set(digests).size).toBe(digests.length);
  });

  for (const [dialect, parse] of Object.entries(conversationOf))
    test.each(bodies[dialect] ?? [])(`is what ${dialect} body %# means`, (body) => {
      const parsed = parse(body);
      expect(parsed.messages).toHaveLength(conversation.messages.length);
      expect(digests.map((_, count) => contextDigest(parsed, count))).toEqual(digests);
    });
});
