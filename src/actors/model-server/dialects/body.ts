/** What request bodies of all dialects share: checking, content parts, tool arguments. */
import { z } from "zod";
import { RequestError } from "../request-error.js";

const Part = z.looseObject({ type: z.string() });
export const Content = z.union([z.string(), z.array(Part)], {
  error: "must be a string or an array of parts with a type",
});
export type Content = z.infer<typeof Content>;
export type Part = z.infer<typeof Part>;

/** uint32. Not part of every API: makes one request repeatable. */
export const Seed = z.number().int().min(0).max(0xffff_ffff);

/**
 * @param at Path of the value in the body; "" for the body itself.
 * @throws RequestError 400 naming the first field that is wrong.
 */
export function checkedBody<T>(schema: z.ZodType<T>, value: unknown, at = ""): T {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const path = [...(at === "" ? [] : [at]), ...(issue?.path ?? [])].join(".");
  throw new RequestError(400, `${path || "body"}: ${issue?.message ?? "invalid"}`);
}

const TEXT_PARTS: ReadonlySet<string> = new Set([
  "text",
  "input_text",
  "output_text",
  "summary_text",
  "reasoning_text",
]);

/** Text of a content, part texts joined by `separator`; a part that is no text is named in its place. */
export function contentText(content: Content, path: string, separator = "\n"): string {
  if (typeof content === "string") return content;
  return content.map((part, index) => partText(part, `${path}.${index}`)).join(separator);
}

/** @throws RequestError 400 when a text part has no text. */
export function partText(part: Part, path: string): string {
  if (!TEXT_PARTS.has(part.type)) return `[${part.type} block]`;
  return stringField(part, "text", path);
}

/** @throws RequestError 400 when the field is no string. */
export function stringField(
  part: Readonly<Record<string, unknown>>,
  field: string,
  path: string,
): string {
  const value = part[field];
  if (typeof value !== "string") throw new RequestError(400, `${path}.${field}: must be a string`);
  return value;
}

/**
 * Tool arguments as an OpenAI history holds them: the object that the text spells, else the text itself. A call that was
 * cut off comes back so in every later request; refusing it would end the rollout.
 */
export function toolArguments(text: string): unknown {
  if (text === "") return {};
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? value : text;
  } catch {
    return text;
  }
}

/** Levels of arrays and objects; tools of real clients have about ten. */
const MAX_DEPTH = 200;

/**
 * For values that an answer repeats: writing them as JSON must not overflow the stack when the answer is there.
 * @throws RequestError 400 when the value nests deeper than 200 levels.
 */
export function checkDepth(value: unknown, path: string): void {
  let level: unknown[] = [value];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > MAX_DEPTH)
      throw new RequestError(400, `${path}: must not nest deeper than ${MAX_DEPTH} levels`);
    level = level.flatMap((one) =>
      typeof one === "object" && one !== null ? Object.values(one) : [],
    );
  }
}
