/** Values for the arguments of any JSON schema: lists to choose from, or one small value that satisfies the usual keywords. */
import { asRecord, type JsonSchema, requiredArguments } from "./tools.js";

/** Enumerations longer than this are cut. */
const MAX_CHOICES = 64;
const MAX_DEPTH = 4;
const MAX_ITEMS = 8;

/** JSON in ASCII: what is outside becomes `\uXXXX`. */
export function toAsciiJson(value: unknown): string {
  const escaped = (c: string) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return (JSON.stringify(value) ?? "null").replace(/[^\x20-\x7e]/g, escaped);
}

/** The schema's type; the first that is not null of several; `string` when it names none. */
export function schemaType(schema: JsonSchema): string {
  const type = schema["type"];
  const types: unknown[] = Array.isArray(type) ? type : [type];
  const named = types.find((t) => typeof t === "string" && t !== "null") ?? types[0];
  if (typeof named === "string") return named;
  if (schema["properties"] !== undefined) return "object";
  if (schema["items"] !== undefined) return "array";
  const inner = alternative(schema);
  return inner ? schemaType(inner) : "string";
}

/** The schema with its first alternative that is not null merged in, when it names no type itself. */
function resolved(schema: JsonSchema): JsonSchema {
  return schema["type"] === undefined ? { ...alternative(schema), ...schema } : schema;
}

function alternative(schema: JsonSchema): JsonSchema | undefined {
  for (const keyword of ["anyOf", "oneOf", "allOf"]) {
    const list = schema[keyword];
    if (!Array.isArray(list)) continue;
    const inner = list.map(asRecord).find((s) => s["type"] !== "null");
    // One level, which is what tools in practice have; it also bounds the work.
    if (inner) return { ...inner, anyOf: undefined, oneOf: undefined, allOf: undefined };
  }
  return undefined;
}

/** The values of an enumeration, a boolean or a number as JSON, to choose from; undefined for other schemas. */
export function choiceValues(schema: JsonSchema): string[] | undefined {
  const source = resolved(schema);
  if (Object.hasOwn(source, "const")) return [toAsciiJson(source["const"])];
  const values = source["enum"];
  if (Array.isArray(values) && values.length > 0)
    return [...new Set(values.slice(0, MAX_CHOICES).map(toAsciiJson))];
  const type = schemaType(source);
  if (type === "boolean") return ["true", "false"];
  if (type === "number" || type === "integer") return numberValues(source);
  return undefined;
}

function numberValues(schema: JsonSchema): string[] {
  const bound = (keyword: string, otherwise: number) => {
    const value = schema[keyword];
    return typeof value === "number" && Number.isFinite(value) ? value : otherwise;
  };
  const low = Math.max(bound("minimum", -Infinity), bound("exclusiveMinimum", -Infinity) + 1);
  const high = Math.min(bound("maximum", Infinity), bound("exclusiveMaximum", Infinity) - 1);
  const inRange = [1, 2, 10].filter((n) => n >= low && n <= high);
  if (inRange.length > 0) return inRange.map(String);
  const edge = Number.isFinite(low) ? low : Number.isFinite(high) ? high : 0;
  return [toAsciiJson(schemaType(schema) === "integer" ? Math.ceil(edge) : edge)];
}

/** JSON of a smallest value of an array, object or null schema: required properties and `minItems` only. */
export function fixedJson(schema: JsonSchema): string {
  return toAsciiJson(smallest(schema, 0));
}

function smallest(unresolved: JsonSchema, depth: number): unknown {
  const schema = resolved(unresolved);
  const choices = choiceValues(schema);
  if (choices) return JSON.parse(choices[0] ?? "null");
  const type = schemaType(schema);
  if (type === "string") return "";
  if (type === "null") return null;
  if (type === "array") {
    const least = Number(schema["minItems"] ?? 0);
    const count = depth < MAX_DEPTH && least > 0 ? Math.min(least, MAX_ITEMS) : 0;
    return Array.from({ length: count }, () => smallest(asRecord(schema["items"]), depth + 1));
  }
  const required = depth < MAX_DEPTH ? requiredArguments(schema) : [];
  return Object.fromEntries(required.map((a) => [a.name, smallest(a.schema, depth + 1)]));
}
