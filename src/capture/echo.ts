/**
 * Decides whether tool arguments in a history are those that were served. Harnesses parse and write them anew; the
 * rewrites below were measured on real command lines and are the only ones allowed.
 *
 * E1. Allowed: key order; at the top level a string that became the number or boolean it spells, trailing blanks of
 *     lines and trailing newlines gone, an added `replace_all: false`; arguments that were not JSON wrapped in
 *     `__unparsedToolInput`; `{}` for an empty text.
 * E2. Everything else differs: another value, a missing key, another added key, a value that became a string.
 */
import { canonicalJson } from "./canonical-json.js";

/** Contract: both are parsed JSON; `recorded` is the raw text when what the model wrote was not JSON. */
export function echoEquivalent(recorded: unknown, echoed: unknown): boolean {
  if (typeof recorded === "string" && isObject(echoed)) return isWrapped(recorded, echoed);
  if (isObject(recorded) && isObject(echoed)) return sameFields(recorded, echoed);
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

function sameFields(recorded: JsonObject, echoed: JsonObject): boolean {
  const kept = Object.keys(recorded).every(
    (key) => Object.hasOwn(echoed, key) && sameValue(recorded[key], echoed[key]),
  );
  const added = Object.keys(echoed).filter((key) => !Object.hasOwn(recorded, key));
  return kept && added.every((key) => key === "replace_all" && echoed[key] === false);
}

function sameValue(recorded: unknown, echoed: unknown): boolean {
  if (typeof recorded !== "string") return sameJson(recorded, echoed);
  if (typeof echoed === "string") return echoed === recorded || isStripped(recorded, echoed);
  // The spelling must be the value's own: "007" or a number too long for a double was changed, not parsed.
  if (typeof echoed === "number") return Number.isFinite(echoed) && String(echoed) === recorded;
  return typeof echoed === "boolean" && String(echoed) === recorded;
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
