import { describe, expect, it } from "vitest";
import { echoEquivalent } from "../../../src/capture/index.js";

const wrapped = (raw: string, len = raw.length) => ({ __unparsedToolInput: { raw, len } });

/** What was served, an echo that is allowed, and neighbours of it that are not. */
const rewrites: [string, unknown, unknown, unknown[]][] = [
  ["same", { a: 1 }, { a: 1 }, [{ a: 2 }, { b: 1 }, {}, { a: 1, b: 2 }, [1], null, "a"]],
  [
    "key order",
    { b: 2, a: { d: 1, c: 2 } },
    { a: { c: 2, d: 1 }, b: 2 },
    [{ a: { c: 1, d: 2 }, b: 2 }],
  ],
  [
    "number spelled as text",
    { t: "5000" },
    { t: 5000 },
    [{ t: 5001 }, { t: true }, { t: null }, { t: [5000] }],
  ],
  ["text is not a number's own spelling", { t: "007" }, { t: "007" }, [{ t: 7 }]],
  [
    "long number",
    { t: "9007199254740993" },
    { t: "9007199254740993" },
    [{ t: Number("9007199254740993") }],
  ],
  ["number does not become text", { t: 5000 }, { t: 5000 }, [{ t: "5000" }]],
  ["boolean spelled as text", { b: "false" }, { b: false }, [{ b: true }, { b: 0 }, { b: "true" }]],
  [
    "replace_all added",
    { o: "x" },
    { replace_all: false, o: "x" },
    [
      { replace_all: true, o: "x" },
      { other: false, o: "x" },
    ],
  ],
  ["replace_all kept", { replace_all: true }, { replace_all: true }, [{ replace_all: false }, {}]],
  [
    "trailing blanks of lines",
    { c: "tail  \nx\t\n\n" },
    { c: "tail\nx\n\n" },
    [{ c: "tail\nx" + "y" }, { c: "tail\n x\n\n" }],
  ],
  ["trailing newline", { c: "a\n" }, { c: "a" }, [{ c: "" }, { c: "A" }]],
  ["all trailing newlines", { c: "a\n\n\n" }, { c: "a" }, [{ c: "a\n" }, { c: "b" }]],
  ["leading blanks stay", { c: "  a" }, { c: "  a" }, [{ c: "a" }, { c: " a" }]],
  ["blanks are not added", { c: "a" }, { c: "a" }, [{ c: "a " }, { c: "a\n" }]],
  ["inner newlines stay", { c: "a\n\nb" }, { c: "a\n\nb" }, [{ c: "a\nb" }]],
  [
    "nested values are exact",
    { e: [{ s: "1", t: "x " }] },
    { e: [{ t: "x ", s: "1" }] },
    [{ e: [{ s: 1, t: "x " }] }, { e: [{ s: "1", t: "x" }] }],
  ],
  [
    "cut JSON wrapped",
    '{"a": "b',
    wrapped('{"a": "b'),
    [wrapped('{"a": "c'), wrapped('{"a": "b', 3), { ...wrapped('{"a": "b'), x: 1 }, {}],
  ],
  ["empty text", "", {}, [{ a: 1 }, null, "x"]],
  [
    "own __proto__ key",
    JSON.parse('{"__proto__":1}'),
    JSON.parse('{"__proto__":1}'),
    [{}, JSON.parse('{"__proto__":2}')],
  ],
];

describe("E1 allowed rewrites and E2 their refused neighbours", () => {
  it.each(rewrites)("%s", (_, recorded, echoed, neighbours) => {
    expect(echoEquivalent(recorded, echoed)).toBe(true);
    for (const neighbour of neighbours) expect(echoEquivalent(recorded, neighbour)).toBe(false);
  });

  it("compares deep nesting without overflow", () => {
    const deep = (leaf: number) => {
      let value: unknown = leaf;
      for (let depth = 0; depth < 100_000; depth += 1) value = [value];
      return { a: value };
    };
    expect(echoEquivalent(deep(1), deep(1))).toBe(true);
    expect(echoEquivalent(deep(1), deep(2))).toBe(false);
  });
});

describe("E3 the schema decides what a harness may rewrite", () => {
  const schema = {
    properties: {
      timeout: { type: "integer" },
      seconds: { anyOf: [{ type: "number" }, { type: "null" }] },
      background: { type: ["boolean", "null"] },
      command: { type: "string" },
      anything: {},
    },
  };
  const edit = { properties: { replace_all: { type: "boolean" }, old: { type: "string" } } };
  const table: [string, unknown, unknown, unknown, boolean][] = [
    ["a declared integer", { timeout: "5" }, { timeout: 5 }, schema, true],
    ["a number among variants", { seconds: "0.5" }, { seconds: 0.5 }, schema, true],
    ["a boolean among types", { background: "true" }, { background: true }, schema, true],
    ["a declared string stays", { command: "5" }, { command: 5 }, schema, false],
    ["an undeclared property stays", { extra: "5" }, { extra: 5 }, schema, false],
    ["a property of any type", { anything: "5" }, { anything: 5 }, schema, true],
    ["a boolean is no number", { timeout: "true" }, { timeout: true }, schema, false],
    [
      "replace_all where the tool has it",
      { old: "a" },
      { replace_all: false, old: "a" },
      edit,
      true,
    ],
    ["replace_all where it has not", {}, { replace_all: false }, schema, false],
    ["a schema without properties", { a: "1" }, { a: 1 }, { type: "object" }, true],
    ["a schema that is none", { a: "1" }, { a: 1 }, 7, true],
  ];
  it.each(table)("%s", (_, recorded, echoed, known, want) => {
    expect(echoEquivalent(recorded, echoed, known)).toBe(want);
  });
});
