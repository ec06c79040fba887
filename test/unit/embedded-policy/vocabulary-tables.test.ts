import { readFileSync } from "node:fs";
import fc from "fast-check";
import { beforeAll, describe, expect, it } from "vitest";
import { packTables, sha256, unpackTables } from "../../../src/embedded-policy/packed-tables.js";
import {
  parseTokenizerFile,
  type TokenizerFile,
} from "../../../src/embedded-policy/tokenizer-file.js";
import { QWEN3_PACK, readQwen3Tokenizer } from "../../../src/embedded-policy/vocabulary.js";
import {
  TokenIds,
  type VocabularyTables,
  vocabularyTables,
} from "../../../src/embedded-policy/vocabulary-tables.js";

let file: TokenizerFile;
let tables: VocabularyTables;
let source: string;
beforeAll(() => {
  const bytes = readQwen3Tokenizer();
  source = sha256(bytes);
  file = parseTokenizerFile(bytes.toString("utf8"));
  tables = vocabularyTables(file);
});

/** A token's text, where it is ASCII: blanks are spelled as characters of their own. */
function asciiText(spelled: string): string | undefined {
  const text = spelled.replace(/[\u0120\u0109\u010A\u010D]/g, (blank) =>
    String.fromCharCode(blank.charCodeAt(0) - 256),
  );
  return /^[\t\n\r\x20-\x7e]+$/.test(text) && !spelled.includes(" ") ? text : undefined;
}

describe("TokenIds", () => {
  it("knows every ASCII token of the vocabulary by its text, and no other", () => {
    const ids = new TokenIds(tables, new Map([["\uE000", 7]]));
    let known = 0;
    const texts = new Set<string>();
    for (const [spelled, id] of file.tokens) {
      const text = asciiText(spelled);
      if (text === undefined) continue;
      texts.add(text);
      known += ids.get(text) === id ? 1 : 0;
    }
    expect(known).toBe(texts.size);
    expect(known).toBeGreaterThan(90_000);
    expect(ids.get("\uE000")).toBe(7);
    expect(ids.get("")).toBeUndefined();
    for (const { content } of file.added_tokens) expect(ids.get(content)).toBeUndefined();
    fc.assert(
      fc.property(fc.string({ unit: "binary", maxLength: 12 }), (text) => {
        if (!texts.has(text)) expect(ids.get(text)).toBeUndefined();
      }),
    );
  });
});

describe("packed tables", () => {
  it("P1 are read as they were packed, and those of the build are the file's", () => {
    expect(unpackTables(packTables(tables, source), source)).toEqual(tables);
    expect(unpackTables(readFileSync(QWEN3_PACK), source)).toEqual(tables);
  });

  it("P1 are none when a bit changed, a part is missing, or the file is another", () => {
    const pack = packTables(tables, source);
    expect(unpackTables(pack, sha256(Buffer.from("another")))).toBeUndefined();
    expect(unpackTables(new Uint8Array(), source)).toBeUndefined();
    const at = fc.nat({ max: pack.length - 1 });
    const head = pack.indexOf(10);
    fc.assert(
      fc.property(fc.oneof(at, fc.nat({ max: head })), fc.nat({ max: 7 }), (byte, bit) => {
        const damaged = pack.slice();
        damaged[byte] = (damaged[byte] ?? 0) ^ (1 << bit);
        const read = unpackTables(damaged, source);
        expect(read).toBeUndefined();
      }),
      { numRuns: 40 },
    );
    fc.assert(
      fc.property(at, (length) => {
        expect(unpackTables(pack.subarray(0, length), source)).toBeUndefined();
      }),
      { numRuns: 20 },
    );
  });
});
