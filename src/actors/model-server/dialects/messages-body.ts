/** The shape of an Anthropic Messages body: what is read is checked, what is unknown is let through. */
import { z } from "zod";
import { Content, Seed } from "./body.js";

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
  tool_choice: z.looseObject({ type: z.string() }).optional(),
  stream: z.boolean().optional(),
  max_tokens: z.number().int().min(1).optional(),
  stop_sequences: z.array(z.string().min(1)).optional(),
  temperature: z.number().min(0).optional(),
  top_p: z.number().gt(0).max(1).optional(),
  top_k: z.number().int().min(0).optional(),
  seed: Seed.optional(),
});
export type MessagesBody = z.infer<typeof MessagesBody>;
