/** The official clients drive a tool loop on the embedded engine, and repeat what failed. */
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { describe, expect, test } from "vitest";
import { EmbeddedEngine } from "../../src/actors/model-server/engines/embedded.js";
import type { TokenEngine } from "../../src/actors/model-server/engines/engine.js";
import { rolloutKey } from "../../src/actors/model-server/rollout-key.js";
import { finalizeRolloutTokenCapture, type TokenCaptureStore } from "../../src/capture/index.js";
import {
  EmbeddedPolicy,
  loadQwen3Vocabulary,
  untrainedSnapshot,
} from "../../src/embedded-policy/index.js";
import { temporaryStore } from "../support/capture.js";
import { ScriptedEngine, SECRET, startServer, storeCapture } from "../support/model-server.js";

const TURNS = 5;
const TASK = "Write the word blue into out.txt, then read notes.txt.";
const PARAMETERS = {
  type: "object" as const,
  properties: { path: { type: "string" }, count: { type: "integer" } },
  required: ["path", "count"],
};
/** Each weighs as much as an answer, so five turns without a call do not happen: 1 in 16 million. */
const SPECS = Array.from({ length: 26 }, (_, n) => ({ name: `peek_${n}`, description: "Reads." }));

async function embeddedEngine(): Promise<TokenEngine> {
  const policy = new EmbeddedPolicy(await loadQwen3Vocabulary());
  return new EmbeddedEngine(policy, untrainedSnapshot());
}

interface Session {
  readonly store: TokenCaptureStore;
  readonly baseURL: string;
  readonly apiKey: string;
}

async function session(engine: TokenEngine, runSeed = 1): Promise<Session> {
  const { store } = temporaryStore();
  const { server, base } = await startServer({ engine, capture: storeCapture(store) }, { runSeed });
  const { epoch } = await store.open("r1");
  server.openRollout({ rolloutId: "r1", epoch, captured: true });
  return { store, baseURL: base("r1"), apiKey: rolloutKey(SECRET, "r1", epoch) };
}

/** The finished rollout as a trainer gets it. */
async function delivered(store: TokenCaptureStore) {
  const row = { _ng_rollout_id: "r1", response: { output: [] } };
  return finalizeRolloutTokenCapture(row, store);
}

type ClientOptions = {
  readonly fetch?: typeof fetch;
  readonly maxRetries?: number;
};

/** One turn with the client: sends the history, adds the answer and what follows it. @returns ids of the tool calls. */
interface Conversation {
  turn(streaming: boolean): Promise<{ toolCalls: number; outputTokens: number }>;
}

function messages({ baseURL, apiKey }: Session, options: ClientOptions = {}): Conversation {
  const client = new Anthropic({ baseURL, apiKey, ...options });
  const history: Anthropic.MessageParam[] = [{ role: "user", content: TASK }];
  return {
    async turn(streaming) {
      const request = {
        model: "policy",
        max_tokens: 256,
        system: "You are an agent.",
        tools: SPECS.map((spec) => ({ ...spec, input_schema: PARAMETERS })),
        messages: history,
      };
      const answer = streaming
        ? await client.messages.stream(request).finalMessage()
        : await client.messages.create(request);
      const results = answer.content.flatMap((block) =>
        block.type === "tool_use"
          ? [{ type: "tool_result" as const, tool_use_id: block.id, content: "red" }]
          : [],
      );
      expect(answer.stop_reason).toBe(results.length > 0 ? "tool_use" : "end_turn");
      history.push({ role: "assistant", content: answer.content });
      history.push({ role: "user", content: results.length > 0 ? results : "Go on." });
      return { toolCalls: results.length, outputTokens: answer.usage.output_tokens };
    },
  };
}

function chat({ baseURL, apiKey }: Session, options: ClientOptions = {}): Conversation {
  const client = new OpenAI({ baseURL: `${baseURL}/v1`, apiKey, ...options });
  const history: OpenAI.ChatCompletionMessageParam[] = [
    { role: "system", content: "You are an agent." },
    { role: "user", content: TASK },
  ];
  return {
    async turn(streaming) {
      const request = {
        model: "policy",
        max_completion_tokens: 256,
        tools: SPECS.map((spec) => ({
          type: "function" as const,
          function: { ...spec, parameters: PARAMETERS },
        })),
        messages: history,
      };
      const answer = streaming
        ? await client.chat.completions
            .stream({ ...request, stream_options: { include_usage: true } })
            .finalChatCompletion()
        : await client.chat.completions.create(request);
      const [choice] = answer.choices as [OpenAI.ChatCompletion.Choice];
      const results = (choice.message.tool_calls ?? []).map(
        ({ id }) => ({ role: "tool", tool_call_id: id, content: "red" }) as const,
      );
      expect(choice.finish_reason).toBe(results.length > 0 ? "tool_calls" : "stop");
      history.push(choice.message);
      history.push(...(results.length > 0 ? results : [{ role: "user" as const, content: "Go." }]));
      return { toolCalls: results.length, outputTokens: answer.usage?.completion_tokens ?? 0 };
    },
  };
}

function responses({ baseURL, apiKey }: Session, options: ClientOptions = {}): Conversation {
  const client = new OpenAI({ baseURL: `${baseURL}/v1`, apiKey, ...options });
  const history: OpenAI.Responses.ResponseInputItem[] = [{ role: "user", content: TASK }];
  return {
    async turn(streaming) {
      const request = {
        model: "policy",
        max_output_tokens: 256,
        instructions: "You are an agent.",
        store: false,
        tools: SPECS.map((spec) => ({
          type: "function" as const,
          ...spec,
          parameters: PARAMETERS,
          strict: false,
        })),
        input: history,
      };
      const answer = streaming
        ? await client.responses.stream(request).finalResponse()
        : await client.responses.create(request);
      expect(answer.status).toBe("completed");
      const results = answer.output.flatMap((item) =>
        item.type === "function_call"
          ? [{ type: "function_call_output" as const, call_id: item.call_id, output: "red" }]
          : [],
      );
      if (results.length === 0) expect(answer.output_text).not.toBe("");
      history.push(...(answer.output as OpenAI.Responses.ResponseInputItem[]));
      history.push(...(results.length > 0 ? results : [{ role: "user" as const, content: "Go." }]));
      return { toolCalls: results.length, outputTokens: answer.usage?.output_tokens ?? 0 };
    },
  };
}

const CLIENTS = { messages, chat, responses };

describe.each(Object.entries(CLIENTS))("%s", (_name, open) => {
  test.each([
    ["streaming", () => true],
    ["not streaming", () => false],
    ["in turns", (turn: number) => turn % 2 === 0],
  ])(
    "five turns, %s: every token the client was told of is in one chain",
    async (_how, streams) => {
      const { store, ...rest } = await session(await embeddedEngine(), 3);
      const conversation = open({ store, ...rest });
      let toolCalls = 0;
      let outputTokens = 0;
      for (let turn = 0; turn < TURNS; turn++) {
        const answer = await conversation.turn(streams(turn));
        toolCalls += answer.toolCalls;
        outputTokens += answer.outputTokens;
      }
      expect(toolCalls).toBeGreaterThan(0);
      const { masked, metrics } = await delivered(store);
      expect(metrics?.mask_reasons).toEqual([]);
      expect(masked).toBe(false);
      expect(metrics).toMatchObject({
        n_calls: TURNS,
        chains: 1,
        delivered_fraction: 1,
        generated_tokens_delivered: outputTokens,
      });
    },
  );

  test("an engine that fails once is asked again by the client, and nothing is lost or doubled", async () => {
    const engine = new ScriptedEngine([
      async () => {
        throw new Error("no memory");
      },
      "one<|im_end|>",
      "two<|im_end|>",
    ]);
    const { store, ...rest } = await session(engine);
    const conversation = open({ store, ...rest });
    await conversation.turn(true);
    await conversation.turn(false);
    const { masked, metrics } = await delivered(store);
    expect(metrics).toMatchObject({ n_calls: 2, failed_calls: 1, chains: 1, mask_reasons: [] });
    expect(masked).toBe(false);
  });

  test.each([429, 500, 529])(
    "a gateway answers %i in place of a finished call: the repeat is a sibling, the chain is the one that was read (https://github.com/radixark/miles/pull/1826)",
    async (status) => {
      const engine = new ScriptedEngine(["lost<|im_end|>", "read<|im_end|>", "end<|im_end|>"]);
      const { store, ...rest } = await session(engine);
      let calls = 0;
      const lossy: typeof fetch = async (input, init) => {
        const response = await fetch(input, init);
        if (calls++ > 0) return response;
        await response.arrayBuffer();
        return new Response("{}", { status, headers: { "retry-after-ms": "1" } });
      };
      const conversation = open({ store, ...rest }, { fetch: lossy });
      await conversation.turn(false);
      await conversation.turn(true);
      const snapshot = await store.freeze("r1");
      expect(snapshot.entries).toHaveLength(3);
      const last = snapshot.entries.find((entry) => entry.served_text === "end");
      const read = snapshot.entries.find((entry) => entry.served_text === "read");
      expect(last?.parent_call_id).toBe(read?.model_call_id);
    },
  );

  test.each([
    [400, { baseURL: (url: string) => url.replace("/r1/", "/r%31/") }],
    [403, { apiKey: () => "wrong" }],
  ])("a refusal, %i, is not repeated", async (status, wrong) => {
    const rest = await session(new ScriptedEngine());
    let calls = 0;
    const counted: typeof fetch = (input, init) => {
      calls += 1;
      return fetch(input, init);
    };
    const changed = Object.entries(wrong).map(([key, change]) => [key, change(rest.baseURL)]);
    const conversation = open({ ...rest, ...Object.fromEntries(changed) }, { fetch: counted });
    await expect(conversation.turn(false)).rejects.toMatchObject({ status });
    expect(calls).toBe(1);
  });
});
