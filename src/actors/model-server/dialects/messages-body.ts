/** The shape of an Anthropic Messages body: what is read is checked, what is unknown is let through. */
import { z } from "zod";
import { RequestError } from "../request-error.js";

const Block = z.looseObject({ type: z.string() });
export const Content = z.union([z.string(), z.array(Block)], {
  error: "must be a string or an array of blocks with a type",
});
export type Content = z.infer<typeof Content>;

const Tool = z.looseObject({
  name: z.string().optional(),
  description: z.string().optional(),
  input_schema: z.looseObject({}).optional(),
});

export const MessagesBody = z.looseObject({
  model: z.string().min(1),
  system: Content.optional(),
  messages: z
    .array(z.looseObject({ role: z.enum(["user", "assistant", "system"]), content: Content }))
    .min(1),
  tools: z.array(Tool).optional(),
  stream: z.boolean().optional(),
  max_tokens: z.number().int().min(1).optional(),
  temperature: z.number().min(0).optional(),
  top_p: z.number().gt(0).max(1).optional(),
  top_k: z.number().int().min(0).optional(),
  /** Not part of the API: makes one request repeatable. uint32. */
  seed: z.number().int().min(0).max(0xffff_ffff).optional(),
});
export type MessagesBody = z.infer<typeof MessagesBody>;

/** Text of a content, block texts joined by line breaks; a block that is no text is named in its place. */
export function contentText(content: Content, path: string): string {
  if (typeof content === "string") return content;
  return content.map((block, index) => blockText(block, `${path}.${index}`)).join("\n");
}

/** @throws RequestError 400 when a text block has no text. */
export function blockText(block: Readonly<Record<string, unknown>>, path: string): string {
  if (block["type"] !== "text") return `[${String(block["type"])} block]`;
  return stringField(block, "text", path);
}

/** @throws RequestError 400 when the field is no string. */
export function stringField(
  block: Readonly<Record<string, unknown>>,
  field: string,
  path: string,
): string {
  const value = block[field];
  if (typeof value !== "string") throw new RequestError(400, `${path}.${field}: must be a string`);
  return value;
}
