/**
 * Decides whether tool arguments in a history are those that were served. Harnesses parse and write them anew; the
 * rewrites below were measured on real command lines and are the only ones allowed.
 *
 * E1. Allowed: key order; at the top level a string that became the number or boolean it spells, trailing blanks of
 *     lines and trailing newlines gone, an added `replace_all: false`; arguments that were not JSON wrapped in
 *     `__unparsedToolInput`; `{}` for an empty text.
 * E2. Everything else differs: another value, a missing key, another added key, a value that became a string.
 * E3. With the tool's schema known, a string becomes a number or a boolean only where the schema declares one, and
 *     `replace_all` is added only to a tool that has it: a harness rewrites by schema, so anything else is an edit.
 */
import { canonicalJson } from "./canonical-json.js";

/**
 * Contract: both are parsed JSON; `recorded` is the raw text when what the model wrote was not JSON. `schema` is the
 * JSON Schema of the tool's arguments; undefined when the request offers no such tool.
 */
export function echoEquivalent(recorded: unknown, echoed: unknown, schema?: unknown): boolean {
  if (typeof recorded === "string" && isObject(echoed)) return isWrapped(recorded, echoed);
  if (isObject(recorded) && isObject(echoed)) return sameFields(recorded, echoed, schema);
  return sameJson(recorded, echoed);
}

type JsonObject = Readonly<Record<string, unknown>>;

function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function sameJson(a: unknown, b: unknown): boolean {
  return canonicalJson(a) === canonicalJson(b);
}

function isWrapped(text: string, echoed: JsonObject): boolean {
  if (text === "" && Object.keys(echoed).length === 0) return true;
  return sameJson(echoed, { __unparsedToolInput: { raw: text, len: text.length } });
}

function sameFields(recorded: JsonObject, echoed: JsonObject, schema: unknown): boolean {
  const kept = Object.keys(recorded).every(
    (key) =>
      Object.hasOwn(echoed, key) &&
      sameValue(recorded[key], echoed[key], declaredTypes(schema, key)),
  );
  const added = Object.keys(echoed).filter((key) => !Object.hasOwn(recorded, key));
  const mayAdd = declaredTypes(schema, "replace_all")?.has("boolean") ?? true;
  return kept && added.every((key) => mayAdd && key === "replace_all" && echoed[key] === false);
}

function sameValue(
  recorded: unknown,
  echoed: unknown,
  types: ReadonlySet<string> | undefined,
): boolean {
  if (typeof recorded !== "string") return sameJson(recorded, echoed);
  if (typeof echoed === "string") return echoed === recorded || isStripped(recorded, echoed);
  // The spelling must be the value's own: "007" or a number too long for a double was changed, not parsed.
  if (typeof echoed !== "number" && typeof echoed !== "boolean") return false;
  if (String(echoed) !== recorded || !Number.isFinite(Number(echoed))) return false;
  return types === undefined || types.has(typeof echoed); // E3
}

/** Types that the schema allows a property, `integer` as `number`; undefined when it does not say. */
function declaredTypes(schema: unknown, key: string): ReadonlySet<string> | undefined {
  const properties = isObject(schema) ? schema["properties"] : undefined;
  if (!isObject(properties)) return undefined;
  if (!Object.hasOwn(properties, key)) return new Set();
  const property = properties[key];
  const variants = [property, ...["anyOf", "oneOf"].flatMap((name) => listOf(property, name))];
  const types = variants.flatMap((variant) => {
    const type = isObject(variant) ? variant["type"] : undefined;
    return Array.isArray(type) ? (type as unknown[]) : [type];
  });
  const named = types.filter((type) => typeof type === "string");
  return named.length === 0
    ? undefined
    : new Set(named.map((type) => (type === "integer" ? "number" : type)));
}

function listOf(value: unknown, name: string): readonly unknown[] {
  const list = isObject(value) ? value[name] : undefined;
  return Array.isArray(list) ? (list as unknown[]) : [];
}

function isStripped(recorded: string, echoed: string): boolean {
  if (echoed.length >= recorded.length) return false;
  const stripped = recorded.split("\n").map(withoutTrailingBlanks).join("\n");
  return [recorded, stripped].some((text) => {
    if (echoed === text) return true;
    const tail = text.slice(echoed.length);
    const newlines = text.length - withoutTrailing(text, "\n").length;
    const allowed = tail.length === 1 || tail.length === newlines;
    return text.startsWith(echoed) && allowed && withoutTrailing(tail, "\n") === "";
  });
}

function withoutTrailingBlanks(line: string): string {
  return withoutTrailing(line, " \t");
}

function withoutTrailing(text: string, characters: string): string {
  let end = text.length;
  while (end > 0 && characters.includes(text.charAt(end - 1))) end -= 1;
  return text.slice(0, end);
}
