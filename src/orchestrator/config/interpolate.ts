/**
 * Resolves `${oc.env:VAR}`, `${oc.env:VAR,default}`, `${oc.select:key}` and `${oc.select:key,default}`. A value that is
 * one interpolation keeps the selected value's type; inside other text it becomes text. Nothing else is interpolated.
 *
 * N1. A `token_id_capture` block with `enabled: false` is left unresolved: a run without capture needs none of its secrets.
 * N2. What came from the environment is remembered, so that it is never printed.
 */
import { parse as parseYaml } from "yaml";
import { ConfigError } from "../errors.js";
import { isMapping, type Mapping } from "./merge.js";

export interface ResolvedValues {
  readonly value: Mapping;
  /** Dotted path of a leaf that holds a value of the environment → the text it was written as. */
  readonly fromEnvironment: ReadonlyMap<string, string>;
  /** Dotted paths of leaves that were left as written (N1). */
  readonly unresolved: ReadonlySet<string>;
}

interface Scope {
  readonly root: Mapping;
  readonly environment: NodeJS.ProcessEnv;
  readonly fromEnvironment: Map<string, string>;
  readonly unresolved: Set<string>;
}

/**
 * @throws ENV_UNSET when a variable without default is not set.
 * @throws BAD_INTERPOLATION when the form is unknown, nothing is selected, or selections go in a circle.
 */
export function interpolate(root: Mapping, environment: NodeJS.ProcessEnv): ResolvedValues {
  const scope: Scope = { root, environment, fromEnvironment: new Map(), unresolved: new Set() };
  const value: Mapping = {};
  for (const [key, child] of Object.entries(root)) {
    const keep = key === "token_id_capture" && !captureEnabled(child, scope);
    value[key] = keep ? keepUnresolved(child, [key], scope) : resolveNode(child, [key], scope);
  }
  return { value, fromEnvironment: scope.fromEnvironment, unresolved: scope.unresolved };
}

/** `enabled` itself may be an interpolation. Anything but a plain yes is a no here; the schema judges the type. */
function captureEnabled(block: unknown, scope: Scope): boolean {
  if (!isMapping(block)) return false;
  const enabled = resolveNode(block["enabled"], ["token_id_capture", "enabled"], scope);
  return enabled === true || (typeof enabled === "string" && parseYaml(enabled) === true);
}

function keepUnresolved(node: unknown, path: readonly string[], scope: Scope): unknown {
  if (path.length === 2 && path[1] === "enabled") return resolveNode(node, path, scope);
  if (isMapping(node))
    return mapEntries(node, (key, child) => keepUnresolved(child, [...path, key], scope));
  if (typeof node === "string" && node.includes("${")) scope.unresolved.add(path.join("."));
  return node;
}

function resolveNode(node: unknown, path: readonly string[], scope: Scope): unknown {
  if (isMapping(node))
    return mapEntries(node, (key, child) => resolveNode(child, [...path, key], scope));
  if (Array.isArray(node))
    return node.map((child, index) => resolveNode(child, [...path, String(index)], scope));
  if (typeof node !== "string" || !node.includes("${")) return node;
  return resolveText(node, path.join("."), scope, []);
}

function mapEntries(node: Mapping, map: (key: string, child: unknown) => unknown): Mapping {
  return Object.fromEntries(Object.entries(node).map(([key, child]) => [key, map(key, child)]));
}

/** `open` holds the keys that are being selected. */
function resolveText(text: string, at: string, scope: Scope, open: readonly string[]): unknown {
  const start = text.indexOf("${");
  if (start < 0) return text;
  const end = closingBrace(text, start, at);
  const value = resolveExpression(text.slice(start + 2, end), at, scope, open);
  if (start === 0 && end === text.length - 1) return value;
  const rest = resolveText(text.slice(end + 1), at, scope, open);
  return `${text.slice(0, start)}${plainText(value, at)}${plainText(rest, at)}`;
}

function plainText(value: unknown, at: string): string {
  if (value === null) return "";
  if (typeof value !== "object") return String(value);
  throw new ConfigError("BAD_INTERPOLATION", at, "a mapping or list cannot stand inside text");
}

function closingBrace(text: string, start: number, at: string): number {
  let depth = 0;
  for (let index = start; index < text.length; index++) {
    if (text.startsWith("${", index)) depth++;
    else if (text[index] === "}" && --depth === 0) return index;
  }
  throw new ConfigError("BAD_INTERPOLATION", at, `"${text}" has no closing brace`);
}

function resolveExpression(
  expression: string,
  at: string,
  scope: Scope,
  open: readonly string[],
): unknown {
  const match = /^oc\.(env|select):\s*([^,\s]+)\s*(?:,([\s\S]*))?$/.exec(expression);
  if (match === null) {
    const allowed = `allowed: \${oc.env:VAR}, \${oc.env:VAR,default}, \${oc.select:key,default}`;
    throw new ConfigError("BAD_INTERPOLATION", at, `\${${expression}} is unknown; ${allowed}`);
  }
  const [, kind, name = "", written] = match;
  const fallback = written === undefined ? undefined : resolveText(written.trim(), at, scope, open);
  return kind === "env"
    ? fromEnvironment(name, fallback, expression, at, scope)
    : select(name, fallback, at, scope, open);
}

function fromEnvironment(
  name: string,
  fallback: unknown,
  expression: string,
  at: string,
  scope: Scope,
): unknown {
  const value = scope.environment[name] ?? (fallback === "null" ? null : fallback);
  if (value === undefined)
    throw new ConfigError("ENV_UNSET", at, `the environment variable ${name} is not set`);
  scope.fromEnvironment.set(at, `\${${expression}}`);
  return value;
}

function select(
  key: string,
  fallback: unknown,
  at: string,
  scope: Scope,
  open: readonly string[],
): unknown {
  if (open.includes(key))
    throw new ConfigError("BAD_INTERPOLATION", at, `\${oc.select:${key}} selects itself`);
  let node: unknown = scope.root;
  for (const part of key.split(".")) node = isMapping(node) ? node[part] : undefined;
  if (node === undefined && fallback === undefined)
    throw new ConfigError(
      "BAD_INTERPOLATION",
      at,
      `\${oc.select:${key}} selects nothing and has no default`,
    );
  if (node === undefined) return typeof fallback === "string" ? parseYaml(fallback) : fallback;
  if (typeof node === "string") return resolveText(node, at, scope, [...open, key]);
  return resolveNode(node, at.split("."), scope);
}
