/** A renderer from a model's own files: `tokenizer.json`, `tokenizer_config.json`, `chat_template.jinja`. */
import { readFileSync } from "node:fs";
import path from "node:path";
import { ByteLevelVocabulary } from "../../../embedded-policy/index.js";
import { type ChatTemplateOptions, ChatTemplateRenderer } from "./chat-template-renderer.js";
import { FAMILY_NAMES, type FamilyName, familyOfTemplate } from "./families.js";

export interface ModelDirectoryOptions
  extends Pick<ChatTemplateOptions, "variables" | "contentSpecials"> {
  /** Default: the one that the template is written for. */
  readonly family?: FamilyName;
  /** A template in place of the directory's own. Path. */
  readonly chatTemplateFile?: string;
}

class ModelDirectoryError extends Error {
  static {
    Object.defineProperty(ModelDirectoryError.prototype, "name", { value: "ModelDirectoryError" });
  }
  readonly code = "MODEL_DIRECTORY_INVALID";
}

/** @throws MODEL_DIRECTORY_INVALID naming the file and what is wrong with it. */
export function loadModelDirectory(
  directory: string,
  options: ModelDirectoryOptions = {},
): ChatTemplateRenderer {
  const config = parsed(path.join(directory, "tokenizer_config.json"));
  const templateFile = options.chatTemplateFile ?? path.join(directory, "chat_template.jinja");
  const chatTemplate =
    readOptional(templateFile) ?? templateOf(config, path.join(directory, "tokenizer_config.json"));
  const family = options.family ?? familyOfTemplate(chatTemplate);
  if (family === undefined)
    throw new ModelDirectoryError(
      `${templateFile}: the chat template is of no known family; allowed for family: ${FAMILY_NAMES.join(", ")}`,
    );
  const tokenizerFile = path.join(directory, "tokenizer.json");
  try {
    return new ChatTemplateRenderer(ByteLevelVocabulary.parse(read(tokenizerFile)), {
      ...options,
      family,
      chatTemplate,
      variables: { ...specialTokens(config), ...options.variables },
    });
  } catch (cause) {
    if (cause instanceof ModelDirectoryError) throw cause;
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new ModelDirectoryError(`${directory}: ${reason}`, { cause });
  }
}

function read(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (cause) {
    throw new ModelDirectoryError(`cannot read ${file}`, { cause });
  }
}

function readOptional(file: string): string | undefined {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return undefined;
  }
}

function parsed(file: string): Readonly<Record<string, unknown>> {
  try {
    return JSON.parse(read(file)) as Readonly<Record<string, unknown>>;
  } catch (cause) {
    if (cause instanceof ModelDirectoryError) throw cause;
    throw new ModelDirectoryError(`${file} is no JSON`, { cause });
  }
}

/** One template, or the named ones of a list: the one for tools, else the default. */
function templateOf(config: Readonly<Record<string, unknown>>, file: string): string {
  const template = config["chat_template"];
  if (typeof template === "string") return template;
  const named = Array.isArray(template)
    ? (template as { name?: unknown; template?: unknown }[])
    : [];
  for (const name of ["tool_use", "default"]) {
    const found = named.find((entry) => entry.name === name)?.template;
    if (typeof found === "string") return found;
  }
  throw new ModelDirectoryError(
    `${file} has no chat_template, and there is no chat_template.jinja; name one with chat_template`,
  );
}

/** `bos_token`, `eos_token` as templates use them; a token is a string or an object with its content. */
function specialTokens(config: Readonly<Record<string, unknown>>): Record<string, string> {
  const tokens: Record<string, string> = {};
  for (const name of ["bos_token", "eos_token"]) {
    const token = config[name];
    const content =
      typeof token === "object" && token !== null
        ? (token as { content?: unknown }).content
        : token;
    if (typeof content === "string") tokens[name] = content;
  }
  return tokens;
}
