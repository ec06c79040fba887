/**
 * A renderer out of a llama.cpp server alone: its chat template (`/props`), its tokenizer (`/tokenize`). Prompts are still
 * put together here and sent as ids, so the parent's ids are supplied as with any token engine.
 *
 * L1. The template is tried against the server's own rendering (`/apply-template`); where the two differ, start warns.
 */
import type { Conversation } from "../../../capture/index.js";
import { ChatTemplateRenderer } from "../renderers/chat-template-renderer.js";
import {
  FAMILIES,
  FAMILY_NAMES,
  type FamilyName,
  familyOfTemplate,
} from "../renderers/families.js";
import { ServerVocabulary } from "../renderers/server-vocabulary.js";
import { chatBody } from "./chat-wire.js";
import { firstDifference } from "./engine.js";
import { misconfigured, PROBE_TOOL } from "./start.js";
import type { EngineClient } from "./upstream/engine-client.js";
import { countAt, idsAt, objectAt, textAt } from "./upstream/json.js";

export interface ServerRenderingOptions {
  /** Default: the one that the template is written for. */
  readonly family?: FamilyName;
  readonly variables: Readonly<Record<string, unknown>>;
  readonly contentSpecials: "text" | "special";
}

export interface ServerRenderer {
  readonly renderer: ChatTemplateRenderer;
  readonly vocabulary: ServerVocabulary;
  readonly warnings: readonly string[];
}

/** Special tokens of chat templates look like one of these. */
const SPECIAL_TEXT = /<\|[^<>|\s]{1,40}\|>|<\/?[A-Za-z_]{1,40}>/g;

/** More ids than any vocabulary has; the bound where the server does not tell its own. */
const ANY_VOCABULARY = 2 ** 31;

const PROBE: Conversation = {
  model: "",
  system: "s",
  tools: [PROBE_TOOL],
  messages: [
    { role: "user", text: "u" },
    { role: "assistant", text: "a", toolCalls: [] },
    { role: "user", text: "v" },
  ],
};
const PROBE_REQUEST = { conversation: PROBE, stopSequences: [], toolChoice: "auto" as const };

/** @throws ENGINE_MISCONFIGURED when the server has no template of a known family. */
export async function openServerRenderer(
  client: EngineClient,
  signal: AbortSignal,
  options: ServerRenderingOptions,
): Promise<ServerRenderer> {
  const props = objectAt(await client.get("/props", signal), "/props");
  const chatTemplate = textAt(props["chat_template"]) ?? "";
  const family = options.family ?? familyOfTemplate(chatTemplate);
  if (family === undefined)
    throw misconfigured(
      `the server's chat template is of no known family; set engine.model_dir, or engine.family to one of: ${FAMILY_NAMES.join(", ")}`,
    );
  const tokens = { bos_token: textAt(props["bos_token"]), eos_token: textAt(props["eos_token"]) };
  const { endOfTurn, otherStops, reasoning, toolFormat } = FAMILIES[family];
  const marks = [endOfTurn, ...otherStops, reasoning.open, reasoning.close, ...toolFormat.marks];
  const written = [...(chatTemplate.match(SPECIAL_TEXT) ?? []), ...Object.values(tokens)];
  const tokenize = async (content: string, specials: boolean) => {
    const body = { content, add_special: false, parse_special: specials };
    const reply = objectAt(await client.post("/tokenize", body, { signal }), "/tokenize");
    return idsAt(reply["tokens"], "/tokenize tokens") ?? [];
  };
  const vocabulary = await ServerVocabulary.open(tokenize, {
    candidates: [...marks, ...written].flatMap((text) => text || []),
    size: await vocabularySize(client, signal),
  });
  const renderer = rendererOf(vocabulary, {
    family,
    chatTemplate,
    variables: { ...tokens, ...options.variables },
    contentSpecials: options.contentSpecials,
  });
  const body = { ...chatBody(PROBE_REQUEST), chat_template_kwargs: options.variables };
  const reply = objectAt(await client.post("/apply-template", body, { signal }), "/apply-template");
  const theirs = await vocabulary.encode(textAt(reply["prompt"]) ?? "");
  const ours = await renderer.promptIds(PROBE);
  const bos = vocabulary.specials.get(tokens.bos_token ?? "");
  // A server that adds this token itself leaves its text out.
  const isSame = isEqual(theirs, ours) || (ours[0] === bos && isEqual(theirs, ours.subarray(1)));
  return { renderer, vocabulary, warnings: isSame ? [] : [OTHER_RENDERING] }; // L1
}

const OTHER_RENDERING =
  "the server renders its chat template otherwise than Corral does, whose prompts are sent; for the model's own files set engine.model_dir";

function isEqual(a: Int32Array, b: Int32Array): boolean {
  return firstDifference(a, b) === null;
}

type RendererSettings = ConstructorParameters<typeof ChatTemplateRenderer>[1];

function rendererOf(
  vocabulary: ServerVocabulary,
  settings: RendererSettings,
): ChatTemplateRenderer {
  try {
    return new ChatTemplateRenderer(vocabulary, settings);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw misconfigured(`the server's chat template cannot be used: ${reason}`, cause);
  }
}

async function vocabularySize(client: EngineClient, signal: AbortSignal): Promise<number> {
  const list = objectAt(await client.get("/v1/models", signal), "/v1/models");
  const [model] = Array.isArray(list["data"]) ? (list["data"] as unknown[]) : [];
  const meta = (model as { meta?: { n_vocab?: unknown } } | undefined)?.meta;
  return countAt(meta?.n_vocab) ?? ANY_VOCABULARY;
}
