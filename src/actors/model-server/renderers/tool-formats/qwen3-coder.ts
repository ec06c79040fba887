/**
 * Qwen3-Coder: `<tool_call><function=NAME><parameter=KEY>\nVALUE\n</parameter>…</function></tool_call>`.
 *
 * Values are bare text; the tool's JSON Schema says how each is read. A value that its type cannot be read from stays
 * the text that the policy wrote: the harness refuses it, as it would any wrong argument.
 */
import type { ToolSpecification } from "../../../../capture/index.js";
import type { ParsedToolCall } from "../renderer.js";
import { callsBetweenMarks, isObject, parsedJson, type ToolFormat } from "./tool-format.js";

const OPEN = "<tool_call>";
const CLOSE = "</tool_call>";

export const qwen3CoderFormat: ToolFormat = {
  marks: [OPEN, CLOSE],
  parse: (segments, tools) =>
    callsBetweenMarks(segments, [OPEN, CLOSE], (body) => parseCall(body, tools)),
};

/** Reads a text from left to right; a step that does not fit returns null. */
class Scanner {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  skipBlanks(): void {
    while (/\s/.test(this.#text.charAt(this.#at))) this.#at += 1;
  }

  take(expected: string): boolean {
    if (!this.#text.startsWith(expected, this.#at)) return false;
    this.#at += expected.length;
    return true;
  }

  /** Text up to the delimiter, which is taken too. */
  takeUntil(delimiter: string): string | null {
    const end = this.#text.indexOf(delimiter, this.#at);
    if (end < 0) return null;
    const taken = this.#text.slice(this.#at, end);
    this.#at = end + delimiter.length;
    return taken;
  }

  get isAtEnd(): boolean {
    return this.#at === this.#text.length;
  }
}

function parseCall(body: string, tools: readonly ToolSpecification[]): ParsedToolCall | null {
  const scanner = new Scanner(body);
  scanner.skipBlanks();
  if (!scanner.take("<function=")) return null;
  const name = scanner.takeUntil(">");
  if (name === null || name === "") return null;
  const properties = propertiesOf(name, tools);
  const input: [string, unknown][] = [];
  for (;;) {
    scanner.skipBlanks();
    if (scanner.take("</function>")) break;
    if (!scanner.take("<parameter=")) return null;
    const key = scanner.takeUntil(">");
    const value = key === null ? null : scanner.takeUntil("</parameter>");
    if (key === null || value === null) return null;
    input.push([key, typedValue(withoutFrame(value), properties[key])]);
  }
  scanner.skipBlanks();
  // `fromEntries` defines own properties, also for a key named `__proto__`.
  return scanner.isAtEnd ? { name, arguments: Object.fromEntries(input) } : null;
}

/** The template writes one line break on each side of a value. */
function withoutFrame(value: string): string {
  return value.replace(/^\n/, "").replace(/\n$/, "");
}

function propertiesOf(
  name: string,
  tools: readonly ToolSpecification[],
): Readonly<Record<string, unknown>> {
  const parameters = tools.find((tool) => tool.name === name)?.parameters;
  const properties = isObject(parameters) ? parameters["properties"] : undefined;
  return isObject(properties) ? properties : {};
}

const PYTHON_NAMES: Readonly<Record<string, unknown>> = { True: true, False: false, None: null };

/** Without a schema, or where a string is allowed, the text is the value. */
function typedValue(text: string, schema: unknown): unknown {
  const type = isObject(schema) ? schema["type"] : undefined;
  const types = Array.isArray(type) ? type : [type];
  if (types.some((name) => name === undefined || name === "string")) return text;
  const value = Object.hasOwn(PYTHON_NAMES, text) ? PYTHON_NAMES[text] : parsedJson(text);
  return types.includes(jsonType(value)) || (types.includes("number") && typeof value === "number")
    ? value
    : text;
}

function jsonType(value: unknown): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  return Number.isInteger(value) ? "integer" : typeof value;
}
