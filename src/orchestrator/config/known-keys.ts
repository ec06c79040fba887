/** Which keys a zod schema has, and which of them an unknown key probably meant. */
import { closest, distance } from "fastest-levenshtein";
import { z } from "zod";
import { isMapping } from "./merge.js";

/** Schema without its default and optional wrappers. */
function unwrap(schema: unknown): unknown {
  let inner = schema;
  while (
    inner instanceof z.ZodOptional ||
    inner instanceof z.ZodDefault ||
    inner instanceof z.ZodPrefault
  )
    inner = inner.unwrap();
  return inner;
}

/** The member of a discriminated union that the value names; all members when it names none. */
function members(union: z.ZodDiscriminatedUnion, value: unknown): unknown[] {
  const discriminator = union.def.discriminator;
  const named = isMapping(value) ? value[discriminator] : undefined;
  const matching = union.options.filter((option) => {
    const literal = option instanceof z.ZodObject ? option.shape[discriminator] : undefined;
    return literal instanceof z.ZodLiteral && literal.values.has(named as string);
  });
  return matching.length > 0 ? matching : [...union.options];
}

/** Keys valid at a path of the config. */
function keysAt(schema: unknown, path: readonly string[], value: unknown): string[] {
  const inner = unwrap(schema);
  if (inner instanceof z.ZodDiscriminatedUnion)
    return [...new Set(members(inner, value).flatMap((member) => keysAt(member, path, value)))];
  const [key, ...rest] = path;
  const child = isMapping(value) && key !== undefined ? value[key] : undefined;
  if (inner instanceof z.ZodObject)
    return key === undefined ? Object.keys(inner.shape) : keysAt(inner.shape[key], rest, child);
  if (inner instanceof z.ZodRecord)
    return key === undefined ? [] : keysAt(inner.valueType, rest, child);
  return [];
}

/** Every key path of the schema; a free name is `<name>`. */
function allPaths(schema: unknown, prefix: readonly string[] = []): string[][] {
  const inner = unwrap(schema);
  if (inner instanceof z.ZodDiscriminatedUnion)
    return inner.options.flatMap((option) => allPaths(option, prefix));
  if (inner instanceof z.ZodObject)
    return Object.entries(inner.shape).flatMap(([key, child]) => [
      [...prefix, key],
      ...allPaths(child, [...prefix, key]),
    ]);
  return inner instanceof z.ZodRecord ? allPaths(inner.valueType, [...prefix, "<name>"]) : [];
}

/**
 * Full path of the key that was probably meant: the nearest spelling at the same place; else the same key elsewhere;
 * else the nearest at the same place, however far.
 */
export function nearestKey(
  schema: unknown,
  path: readonly string[],
  key: string,
  root: unknown,
): string | undefined {
  const siblings = keysAt(schema, path, root);
  const nearest = siblings.length > 0 ? closest(key, siblings) : undefined;
  const here = nearest === undefined ? undefined : [...path, nearest].join(".");
  if (nearest !== undefined && distance(key, nearest) <= Math.max(2, key.length / 3)) return here;
  const elsewhere = allPaths(schema).find((candidate) => candidate.at(-1) === key);
  return elsewhere?.join(".") ?? here;
}

/** The nearest of some names; undefined when there are none. */
export function nearestName(name: string, names: readonly string[]): string | undefined {
  return names.length > 0 ? closest(name, names) : undefined;
}
