/**
 * Reads what inference servers call JSON.
 *
 * J1. `NaN` and `Infinity`, which Python writes, are read as numbers that no check lets pass; they never become null.
 * J2. A reader throws ENGINE_REPLY_INVALID naming the field; what is not read is not looked at.
 * J3. A prompt that comes back is read at the speed of its bytes; what is read is the same.
 */
import { EngineError } from "../engine-error.js";
import { type BodyWithIds, liftIds } from "./id-lists.js";

type Json = Readonly<Record<string, unknown>>;

/** Where servers repeat the prompt. */
const PROMPT_IDS = "prompt_token_ids";

const NOT_FINITE = /"(?:[^"\\]|\\.)*"|-?Infinity\b|\bNaN\b/g;
/** In place of a number that is not finite. No server sends this text by itself. */
const MARK = "\u0000not-finite";
/** In place of the prompt's ids. */
const LIFTED = "\u0000lifted";

/**
 * @param sent the body that was answered.
 * @throws ENGINE_REPLY_INVALID when the bytes are no JSON.
 */
export function parseReply(bytes: Buffer, what: string, sent?: BodyWithIds): unknown {
  const lifted = liftIds(bytes, PROMPT_IDS, sent);
  if (lifted === null) return parseText(bytes.toString("utf8"), what);
  const { before, ids, after } = lifted;
  const mark = JSON.stringify(LIFTED);
  const reply = parseText(`${before.toString("utf8")}${mark}${after.toString("utf8")}`, what);
  if (!putBack(reply, ids)) return parseText(bytes.toString("utf8"), what);
  return reply; // J3
}

/** Puts the ids where a server's answer has them; false when the mark is elsewhere. */
function putBack(reply: unknown, ids: Int32Array): boolean {
  const answers = (Array.isArray(reply) ? reply : [reply]) as unknown[];
  const choices = answers.flatMap((answer) => (answer as { choices?: unknown } | null)?.choices);
  for (const place of [...answers, ...choices] as (Record<string, unknown> | null | undefined)[]) {
    if (place?.[PROMPT_IDS] !== LIFTED) continue;
    place[PROMPT_IDS] = ids;
    return true;
  }
  return false;
}

function parseText(text: string, what: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    return parseWithNaN(text, what, cause); // J1
  }
}

function parseWithNaN(text: string, what: string, cause: unknown): unknown {
  const marked = text.replace(NOT_FINITE, (found) =>
    found.startsWith('"') ? found : JSON.stringify(MARK),
  );
  try {
    return JSON.parse(marked, (_key, value: unknown) => (value === MARK ? Number.NaN : value));
  } catch {
    throw new EngineError("ENGINE_REPLY_INVALID", `${what} is no JSON: ${text.slice(0, 200)}`, {
      cause,
    });
  }
}

function invalid(path: string, expected: string, value: unknown): EngineError {
  const shown = JSON.stringify(value)?.slice(0, 80) ?? "missing";
  return new EngineError("ENGINE_REPLY_INVALID", `${path} is ${shown}; it must be ${expected}`);
}

export function objectAt(value: unknown, path: string): Json {
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw invalid(path, "an object", value);
  return value as Json;
}

export function arrayAt(value: unknown, path: string): readonly unknown[] {
  if (!Array.isArray(value)) throw invalid(path, "a list", value);
  return value;
}

/** Integers; undefined when the field is absent or null. */
export function idsAt(value: unknown, path: string): number[] | undefined {
  if (value === undefined || value === null) return undefined;
  const ids = arrayAt(value, path);
  const wrong = ids.findIndex((id) => !Number.isSafeInteger(id));
  if (wrong >= 0) throw invalid(`${path}.${wrong}`, "an integer", ids[wrong]);
  return ids as number[];
}

/** A prompt that the server repeats. */
export function promptIdsAt(value: unknown, path: string): ArrayLike<number> | undefined {
  return value instanceof Int32Array ? value : idsAt(value, path);
}

/** A number as it is; NaN for whatever is none, so that it fails the check by its place. */
export function logProbOf(value: unknown): number {
  return typeof value === "number" ? value : Number.NaN;
}

export function countAt(value: unknown): number | undefined {
  return Number.isSafeInteger(value) ? (value as number) : undefined;
}

export function textAt(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}
