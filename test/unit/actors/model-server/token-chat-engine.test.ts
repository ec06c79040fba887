/** What a call continues, and what a model's directory must hold. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { FULL_CAPABILITIES } from "../../../../src/actors/model-server/engines/engine.js";
import {
  type HistoryMode,
  TokenChatEngine,
} from "../../../../src/actors/model-server/engines/token-chat-engine.js";
import { loadModelDirectory } from "../../../../src/actors/model-server/renderers/model-directory.js";
import type { Conversation, ConversationMessage } from "../../../../src/capture/index.js";
import { chatTemplateOf, modelDirectory, rendererOf } from "../../../support/families.js";
import { emitted, qwen3Renderer, ScriptedEngine } from "../../../support/model-server.js";

const first: ConversationMessage[] = [{ role: "user", text: "do it" }];
const turn: ConversationMessage = { role: "assistant", text: "HAVING", toolCalls: [] };
const appended: ConversationMessage[] = [{ role: "user", text: "and?" }];
const conversation = (messages: readonly ConversationMessage[]): Conversation => ({
  model: "m",
  system: "",
  tools: [],
  messages,
});

/** A call whose answer was sampled as `H` + `AVING`, which its text does not encode to. */
async function parent(end = "<|im_end|>"): Promise<Int32Array> {
  const prompt = await (await qwen3Renderer()).promptIds(conversation(first));
  return Int32Array.of(...prompt, 39, 83722, ...(await emitted(end)));
}

async function engineOf(history?: HistoryMode, contextTokens?: number, renderer = qwen3Renderer()) {
  const engine = new ScriptedEngine();
  const capabilities = { ...FULL_CAPABILITIES, ...(contextTokens && { contextTokens }) };
  return new TokenChatEngine(Object.assign(engine, { capabilities }), await renderer, history);
}

const whole = conversation([...first, turn, ...appended]);

test("P1. append_only: the parent's ids, then the ids of what follows, cut by id (F9, https://github.com/radixark/miles/issues/1319)", async () => {
  const ids = await parent();
  const { ids: next, refusal } = await (await engineOf()).prompt(whole, { ids, appended });
  expect(refusal).toBeUndefined();
  expect(next?.slice(0, ids.length)).toEqual(ids);
  const renderer = await qwen3Renderer();
  expect(next?.slice(ids.length)).toEqual(await renderer.continuationIds(appended));
});

describe("P2. a new segment, rendered whole, with its reason", () => {
  const rendered = async () => (await qwen3Renderer()).promptIds(whole);

  test("a generation that was cut has no end-of-turn id", async () => {
    const engine = await engineOf();
    const prompt = await engine.prompt(whole, { ids: await parent(""), appended });
    expect(prompt).toEqual({ ids: await rendered(), refusal: "PARENT_TRUNCATED" });
  });

  test("history: template, where the template's text is other tokens", async () => {
    const engine = await engineOf("template");
    const { ids, refusal } = await engine.prompt(whole, { ids: await parent(), appended });
    expect(ids).toEqual(await rendered());
    expect(refusal).toMatch(/^HISTORY_REWRITTEN: token \d+ is \d+, the parent's is \d+$/);
  });

  test("history: template, where it happens to give the same ids, goes on", async () => {
    const engine = await engineOf("template");
    const ids = (await rendered()).slice(0, 8);
    expect(await engine.prompt(whole, { ids, appended })).toEqual({ ids: await rendered() });
  });

  test("a context that the continued history overflows", async () => {
    const ids = await parent();
    const { refusal } = await (await engineOf("append_only", ids.length + 2)).prompt(whole, {
      ids,
      appended,
    });
    expect(refusal).toMatch(/^CONTEXT_OVERFLOW: \d+ tokens of \d+$/);
  });

  test("a template that does not write what follows as a continuation", async () => {
    const chatTemplate = chatTemplateOf("qwen3").replaceAll('message.role == "tool"', "false");
    const renderer = rendererOf("qwen3", { chatTemplate });
    const engine = await engineOf("append_only", undefined, Promise.resolve(renderer));
    const tool: ConversationMessage[] = [
      { role: "tool", toolCallId: "t", text: "42 files", isError: false },
    ];
    const asked = conversation([...first, turn, ...appended]);
    const { refusal } = await engine.prompt(asked, { ids: await parent(), appended: tool });
    expect(refusal).toBe("NO_CONTINUATION: the chat template drops or rewrites a tool message");
  });
});

test("Q4. a template that drops what the harness says is refused", async () => {
  const chatTemplate = chatTemplateOf("qwen3").replaceAll('message.role == "user"', "false");
  const asking = rendererOf("qwen3", { chatTemplate }).promptIds(conversation(first));
  await expect(asking).rejects.toThrow("drops or rewrites a user message");
});

describe("a model's directory", () => {
  const folder = mkdtempSync(path.join(tmpdir(), "corral-model-"));
  afterAll(() => rmSync(folder, { recursive: true }));
  const directory = (name: string, files: Readonly<Record<string, string>>): string => {
    const dir = mkdtempSync(path.join(folder, `${name}-`));
    for (const [file, text] of Object.entries(files)) writeFileSync(path.join(dir, file), text);
    return dir;
  };

  test("a real one needs nothing else", async () => {
    const renderer = loadModelDirectory(modelDirectory("qwen3"), {
      variables: { enable_thinking: false },
    });
    expect(await renderer.promptIds(whole)).toEqual(await (await qwen3Renderer()).promptIds(whole));
    expect(renderer.stopIds).toEqual([151_645, 151_643]);
  });

  test.each([
    ["no config", {}, "cannot read .*tokenizer_config.json"],
    ["a config that is no JSON", { "tokenizer_config.json": "{" }, "is no JSON"],
    ["no template", { "tokenizer_config.json": "{}" }, "has no chat_template"],
    [
      "a template of no known family",
      { "tokenizer_config.json": '{"chat_template": "{{ messages }}"}' },
      "no known family; allowed for family: qwen3, qwen3_coder, llama3_json",
    ],
    [
      "no tokenizer",
      { "tokenizer_config.json": "{}", "chat_template.jinja": "<|im_start|>" },
      "cannot read .*tokenizer.json",
    ],
    [
      "another kind of tokenizer",
      {
        "tokenizer_config.json": "{}",
        "chat_template.jinja": "<|im_start|>",
        "tokenizer.json": '{"model": {"type": "Unigram"}}',
      },
      "only byte-level BPE is read",
    ],
  ])("%s is refused by name", (name, files, message) => {
    const dir = directory(name.replaceAll(" ", "-"), files);
    expect(() => loadModelDirectory(dir)).toThrow(new RegExp(message));
    expect(() => loadModelDirectory(dir)).toThrow(
      expect.objectContaining({ code: "MODEL_DIRECTORY_INVALID" }),
    );
  });
});
