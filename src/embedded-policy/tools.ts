/** The tools a prompt offers, read from the block the Qwen3 template writes into the system turn. */

/** A JSON schema, unchecked: whatever the request carried. */
export type JsonSchema = Readonly<Record<string, unknown>>;

/** One required argument of a tool. */
export interface ToolArgument {
  readonly name: string;
  readonly schema: JsonSchema;
}

/** A tool as the grammar needs it. */
export interface Tool {
  readonly name: string;
  /** The required arguments, in the schema's `required` order. Optional ones are never given. */
  readonly required: readonly ToolArgument[];
}

/** Tools beyond this number are not offered to the policy, so that a huge list costs bounded work. */
const MAX_TOOLS = 256;

/** The lines the template writes around the block. Tool JSON has no raw newline, so neither can occur inside it. */
const BLOCK_START = "\n<tools>\n";
const BLOCK_END = "\n</tools>\n\nFor each function call";

/**
 * The tools of a system turn whose template epilogue is known to be there; lines that are no tool are skipped.
 *
 * The last block counts: prose before it may spell the same words, nothing can come after it.
 */
export function parseTools(systemText: string): Tool[] {
  const end = systemText.lastIndexOf(BLOCK_END);
  const start = end < 0 ? -1 : systemText.lastIndexOf(BLOCK_START, end);
  if (start < 0) return [];
  const tools = new Map<string, Tool>();
  for (const line of systemText.slice(start + BLOCK_START.length, end).split("\n")) {
    const tool = parseTool(line);
    if (tool && !tools.has(tool.name)) tools.set(tool.name, tool);
    if (tools.size === MAX_TOOLS) break;
  }
  return [...tools.values()];
}

/** The text of the system message alone, without the block. */
export function systemProse(systemText: string): string {
  const start = systemText.lastIndexOf(BLOCK_START, systemText.lastIndexOf(BLOCK_END));
  return start < 0 ? systemText : systemText.slice(0, start);
}

function parseTool(line: string): Tool | undefined {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    return undefined;
  }
  const entry = asRecord(value);
  const definition = asRecord(entry["function"] ?? entry);
  const name = definition["name"];
  if (typeof name !== "string" || name === "") return undefined;
  const parameters = asRecord(definition["parameters"] ?? definition["input_schema"]);
  return { name, required: requiredArguments(parameters) };
}

/** The required properties of an object schema; one without a schema may be anything. */
export function requiredArguments(schema: JsonSchema): ToolArgument[] {
  const required = Array.isArray(schema["required"]) ? schema["required"] : [];
  const properties = asRecord(schema["properties"]);
  const names = new Set(required.filter((name) => typeof name === "string"));
  return [...names].map((name) => ({
    name,
    schema: Object.hasOwn(properties, name) ? asRecord(properties[name]) : {},
  }));
}

/** The value as a plain record; `{}` when it is none. */
export function asRecord(value: unknown): JsonSchema {
  return typeof value === "object" && value !== null && !Array.isArray(value)
    ? (value as JsonSchema)
    : {};
}
