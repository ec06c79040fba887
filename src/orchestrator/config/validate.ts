/**
 * Checks resolved values against the schema and turns the first fault into one error that names the key, the value and
 * what is allowed.
 *
 * V1. A value of the environment is text; where the schema wants a number or a boolean it is read as one.
 * V2. A value of the environment is never quoted in an error.
 * V3. In a block that was left unresolved the keys are checked and unresolved values are not.
 */
import { parse as parseYaml } from "yaml";
import type { z } from "zod";
import { ENGINE_KINDS } from "../../actors/index.js";
import { ConfigError } from "../errors.js";
import { corralSpelling } from "./gym-keys.js";
import type { ResolvedValues } from "./interpolate.js";
import { checkIsolation } from "./isolation.js";
import { nearestKey, nearestName } from "./known-keys.js";
import { isMapping, type Mapping } from "./merge.js";
import { AGENT_KINDS, Config, type CorralConfig } from "./schema.js";

type Issue = z.core.$ZodIssue;

/**
 * @throws UNKNOWN_KEY naming the full path and the nearest valid key.
 * @throws INVALID_VALUE naming the key, the value and what is allowed.
 */
export function validateConfig(resolved: ResolvedValues): CorralConfig {
  const value = structuredClone(resolved.value);
  let result = Config.safeParse(value);
  if (!result.success && repairText(value, result.error.issues, resolved))
    result = Config.safeParse(value);
  if (!result.success) throw firstFault(result.error.issues, value, resolved);
  checkModelNames(result.data);
  checkIsolation(result.data);
  return result.data;
}

/** V1, V3. True when something was changed. */
function repairText(
  value: Mapping,
  issues: readonly Issue[],
  { fromEnvironment, unresolved }: ResolvedValues,
): boolean {
  let repaired = false;
  for (const issue of issues) {
    if (issue.code === "unrecognized_keys") continue;
    const at = issue.path.join(".");
    const parent = valueAt(value, issue.path.slice(0, -1));
    const key = String(issue.path.at(-1));
    if (!isMapping(parent)) continue;
    if (unresolved.has(at)) delete parent[key];
    else if (fromEnvironment.has(at)) parent[key] = parseYaml(String(parent[key]));
    else continue;
    repaired = true;
  }
  return repaired;
}

function valueAt(root: unknown, path: readonly PropertyKey[]): unknown {
  let node = root;
  for (const key of path) {
    if (Array.isArray(node)) node = node[Number(key)];
    else node = isMapping(node) ? node[String(key)] : undefined;
  }
  return node;
}

/** Unknown keys first: a misspelled key is often why another one is missing. */
function firstFault(
  issues: readonly Issue[],
  value: Mapping,
  resolved: ResolvedValues,
): ConfigError {
  const issue = issues.find(({ code }) => code === "unrecognized_keys") ?? issues[0];
  if (issue === undefined) return new ConfigError("INVALID_VALUE", "config", "is not valid");
  if (issue.code === "unrecognized_keys") return unknownKey(issue, value);
  const at = issue.path.join(".");
  const found = valueAt(value, issue.path);
  const allowed = whatIsAllowed(issue);
  if (found === undefined)
    return new ConfigError("INVALID_VALUE", at, `is missing; allowed: ${allowed}`);
  const written = resolved.fromEnvironment.get(at);
  const shown = written === undefined ? shorten(JSON.stringify(found)) : `the value of ${written}`;
  return new ConfigError("INVALID_VALUE", at, `${shown} is not valid; allowed: ${allowed}`);
}

function unknownKey(issue: z.core.$ZodIssueUnrecognizedKeys, value: Mapping): ConfigError {
  const [key = ""] = issue.keys;
  const path = issue.path.map(String);
  const at = [...path, key].join(".");
  const spelling = corralSpelling(path, key, valueAt(value, [...path, key]));
  if (spelling !== undefined)
    return new ConfigError("UNKNOWN_KEY", at, `is a NeMo Gym key; Corral spells it ${spelling}`);
  const nearest = nearestKey(Config, path, key, value);
  const hint = nearest === undefined ? "" : `; the nearest valid key is ${nearest}`;
  return new ConfigError("UNKNOWN_KEY", at, `is not a known key${hint}`);
}

function shorten(text: string): string {
  return text.length > 80 ? `${text.slice(0, 77)}…` : text;
}

function whatIsAllowed(issue: Issue): string {
  if (issue.code === "invalid_type") return typeName(issue.expected);
  if (issue.code === "too_small") {
    const unit = issue.origin === "string" ? " character" : "";
    return `${issue.inclusive === false ? "more than" : "at least"} ${issue.minimum}${unit}`;
  }
  if (issue.code === "too_big")
    return `${issue.inclusive === false ? "less than" : "at most"} ${issue.maximum}`;
  if (issue.code === "invalid_value")
    return issue.values.map((value) => JSON.stringify(value)).join(", ");
  return issue.code === "invalid_union" ? unionMembers(issue) : issue.message;
}

function typeName(expected: string): string {
  if (expected === "record" || expected === "object") return "a mapping";
  return expected === "int" ? "an integer" : `a ${expected}`;
}

function unionMembers(issue: z.core.$ZodIssueInvalidUnion): string {
  const kinds = issue.path[0] === "responses_api_agents" ? AGENT_KINDS : ENGINE_KINDS;
  return kinds.map((kind) => JSON.stringify(kind)).join(", ");
}

function checkModelNames(config: CorralConfig): void {
  const names = Object.keys(config.responses_api_models);
  for (const [agent, { model }] of Object.entries(config.responses_api_agents)) {
    if (names.includes(model)) continue;
    const nearest = nearestName(model, names);
    const hint =
      nearest === undefined ? "none is configured" : `the nearest configured one is "${nearest}"`;
    const at = `responses_api_agents.${agent}.model`;
    throw new ConfigError(
      "INVALID_VALUE",
      at,
      `"${model}" is no key of responses_api_models; ${hint}`,
    );
  }
}
