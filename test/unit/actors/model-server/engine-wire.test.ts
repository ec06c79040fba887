/** Answers of servers, in every shape that they have had. */
import { describe, expect, test } from "vitest";
import { chatAnswer, chatBody } from "../../../../src/actors/model-server/engines/chat-wire.js";
import {
  generationProblem,
  promptProblem,
} from "../../../../src/actors/model-server/engines/engine.js";
import {
  llamaCppAnswer,
  llamaCppBody,
} from "../../../../src/actors/model-server/engines/llama-cpp.js";
import { sglangChatAnswer } from "../../../../src/actors/model-server/engines/sglang-chat.js";
import {
  sglangAnswer,
  sglangBody,
} from "../../../../src/actors/model-server/engines/sglang-wire.js";
import {
  modeOf,
  topLogProb,
  vllmAnswer,
  vllmBody,
} from "../../../../src/actors/model-server/engines/vllm-wire.js";
import { clampToContext, pinSampling } from "../../../../src/actors/model-server/sampling-pin.js";
import { TurnHealth } from "../../../../src/actors/model-server/turn-health.js";

const sampling = pinSampling({}, {}, 5);
const request = {
  promptIds: Int32Array.of(7, 8, 9),
  sampling,
  signal: new AbortController().signal,
  stopIds: [2],
};

const bodyOf = ({ bytes }: { bytes: Buffer }): unknown => JSON.parse(String(bytes));

test("each server is asked for ids and log probabilities, unfiltered where nothing is pinned, never as a stream", () => {
  expect(bodyOf(vllmBody("completions", "m", request))).toEqual({
    prompt: [7, 8, 9],
    model: "m",
    temperature: 1,
    top_p: 1,
    top_k: -1,
    min_p: 0,
    max_tokens: 4096,
    seed: 5,
    logprobs: 1,
    skip_special_tokens: false,
    stop_token_ids: [2],
    n: 1,
    stream: false,
    add_special_tokens: false,
    return_token_ids: true,
  });
  expect(bodyOf(vllmBody("generate", "m", request))).toMatchObject({
    token_ids: [7, 8, 9],
    sampling_params: { seed: 5, top_k: -1, max_tokens: 4096 },
    stream: false,
  });
  expect(bodyOf(sglangBody(request))).toMatchObject({
    input_ids: [7, 8, 9],
    sampling_params: { sampling_seed: 5, top_k: -1, max_new_tokens: 4096, no_stop_trim: true },
    return_logprob: true,
    stream: false,
  });
  expect(bodyOf(llamaCppBody(request))).toMatchObject({
    prompt: [7, 8, 9],
    n_predict: 4096,
    post_sampling_probs: false,
    samplers: ["temperature", "top_k", "top_p", "min_p"],
  });
  const cold = { ...request, sampling: { ...sampling, temperature: 0.5 } };
  expect(bodyOf(llamaCppBody(cold))).toMatchObject({ post_sampling_probs: true });
});

describe("vLLM", () => {
  const choice = (fields: object) => ({
    choices: [{ finish_reason: "stop", token_ids: [1, 2], ...fields }],
  });

  test("the older generate answer: chat-shaped log probabilities, no counts, no prompt", () => {
    const content = [
      { token: "a", logprob: -1, bytes: null },
      { token: "token_id:2", logprob: -2 },
    ];
    expect(vllmAnswer(choice({ logprobs: { content } }))).toEqual({
      tokenIds: [1, 2],
      logProbs: [-1, -2],
      finishReason: "stop",
    });
  });

  test("the newer one: ids beside log probabilities, spans of weight versions", () => {
    const content = [
      { token_id: 1, logprob: -1, rank: 1 },
      { token_id: 2, logprob: -2, rank: 1 },
    ];
    const answer = vllmAnswer({
      ...choice({ logprobs: { content }, weight_versions: [7, { version: "8" }, "x"] }),
      prompt_token_ids: [9],
      usage: { prompt_tokens: 1, completion_tokens: 2 },
    });
    expect(answer).toMatchObject({
      policyVersionStart: 7,
      policyVersionEnd: 8,
      promptIds: [9],
      completionTokens: 2,
    });
  });

  test("a log probability of another id spoils its place", () => {
    const content = [
      { token_id: 1, logprob: -1 },
      { token_id: 3, logprob: -2 },
    ];
    expect(vllmAnswer(choice({ logprobs: { content } })).logProbs).toEqual([-1, Number.NaN]);
  });

  test.each([
    [{}, "choices"],
    [{ choices: [] }, "choices.0"],
    [choice({ token_ids: null }), "token_ids is missing"],
    [choice({ token_ids: [1.5] }), "token_ids.0 is 1.5; it must be an integer"],
    [choice({ finish_reason: "abort" }), 'ended the call with "abort"'],
    [choice({ finish_reason: null }), "ended the call with null"],
    [choice({ finish_reason: "error" }), 'ended the call with "error"'],
  ])("%j is no answer", (reply, message) => {
    expect(() => vllmAnswer(reply)).toThrow(message);
  });

  test("the mode is what moves with the temperature", () => {
    const at = (value: number) =>
      topLogProb(choice({ logprobs: { top_logprobs: [{ a: value, b: value - 1 }] } }));
    expect(modeOf(at(-0.2), at(-3))).toBe("processed");
    expect(modeOf(at(-0.2), at(-0.201))).toBe("raw");
    expect(modeOf(undefined, at(-1))).toBe("raw");
    expect(
      topLogProb(choice({ logprobs: { content: [{ top_logprobs: [{ logprob: -1 }] }] } })),
    ).toBe(-1);
  });
});

describe("SGLang", () => {
  const reply = (meta: object, more: object = {}) => ({
    text: "",
    meta_info: { finish_reason: { type: "stop", matched: 2 }, ...meta },
    ...more,
  });
  const tokens = [
    [-1, 1, null],
    [-2, 2, null],
  ];

  test("ids stand beside log probabilities where output_ids is absent", () => {
    expect(sglangAnswer(reply({ output_token_logprobs: tokens, weight_version: "12" }))).toEqual({
      tokenIds: [1, 2],
      logProbs: [-1, -2],
      finishReason: "stop",
      weightVersion: 12,
    });
  });

  test("G2. ids that disagree spoil their place", () => {
    const answer = sglangAnswer(reply({ output_token_logprobs: tokens }, { output_ids: [1, 3] }));
    expect(answer.logProbs).toEqual([-1, Number.NaN]);
  });

  test("an abort is an error", () => {
    const aborted = reply({
      finish_reason: { type: "abort", message: "x" },
      output_token_logprobs: tokens,
    });
    expect(() => sglangAnswer(aborted)).toThrow("abort");
  });
});

test("SGLang's chats: ids beside log probabilities where token_ids is absent, an abort is an error", () => {
  const chat = (choice: object) => ({ choices: [{ finish_reason: "tool_calls", ...choice }] });
  const meta_info = { output_token_logprobs: [[-1, 1, null]], weight_version: "default" };
  expect(sglangChatAnswer(chat({ meta_info, prompt_token_ids: [9] }))).toEqual({
    tokenIds: [1],
    logProbs: [-1],
    finishReason: "stop",
    promptIds: [9],
    weightVersion: undefined,
  });
  expect(sglangChatAnswer(chat({ meta_info, token_ids: [2] })).logProbs).toEqual([Number.NaN]);
  const aborted = { ...meta_info, finish_reason: { type: "abort" } };
  expect(() => sglangChatAnswer(chat({ meta_info: aborted }))).toThrow("abort");
  expect(() => sglangChatAnswer(chat({ token_ids: [1] }))).toThrow("meta_info is missing");
});

describe("llama.cpp", () => {
  const reply = (more: object) => ({
    tokens: [1, 2],
    stop_type: "eos",
    completion_probabilities: [
      { id: 1, prob: 0.5 },
      { id: 2, logprob: -2 },
    ],
    ...more,
  });

  test("C1. probabilities after sampling become logarithms", () => {
    expect(llamaCppAnswer(reply({})).logProbs).toEqual([Math.log(0.5), -2]);
    const none = reply({ completion_probabilities: [{ id: 1, prob: 0 }, { id: 2 }] });
    expect(generationProblem({ ...llamaCppAnswer(none), logprobsMode: "processed" }, 10)).toContain(
      "-Infinity",
    );
  });

  test("C2. a prompt that was cut is a failed call", () => {
    expect(() => llamaCppAnswer(reply({ truncated: true }))).toThrow("cut the prompt");
  });
});

describe("F16. what is checked (https://github.com/PrimeIntellect-ai/prime-rl/issues/1646)", () => {
  const good = {
    tokenIds: [1, 2],
    logProbs: [-1, -2],
    logprobsMode: "raw",
    finishReason: "stop",
  } as const;

  test.each([
    [{}, null],
    [{ completionTokens: 3 }, "counted 3"],
    [{ logProbs: [-1] }, "1 log probabilities"],
    [{ logProbs: [-1, -9999] }, "-9999 at 1"],
    [{ tokenIds: [1, 10] }, "token id 10 at 1"],
  ])("%j", (more, problem) => {
    const found = generationProblem({ ...good, ...more }, 10);
    if (problem === null) expect(found).toBeNull();
    else expect(found).toContain(problem);
  });

  test("the prompt that the engine reports is the one that was sent", () => {
    const sent = Int32Array.of(7, 8);
    expect(promptProblem({ ...good, promptIds: [7, 8], promptTokens: 2 }, sent)).toBeNull();
    expect(promptProblem({ ...good, promptIds: [7, 9] }, sent)).toContain("9 at 1, sent was 8");
    expect(promptProblem({ ...good, promptIds: [7] }, sent)).toContain("undefined at 1");
    expect(promptProblem({ ...good, promptTokens: 3 }, sent)).toContain("counted 3");
  });
});

test("max_tokens is cut to what the context leaves", () => {
  const asked = { ...sampling, max_tokens: 32_000 };
  expect(clampToContext(asked, 1000, 4096).max_tokens).toBe(3096);
  expect(clampToContext(asked, 1000, undefined)).toBe(asked);
  expect(clampToContext(asked, undefined, 4096)).toBe(asked);
  expect(() => clampToContext(asked, 4096, 4096)).toThrow("prompt is too long: 4096 tokens > 4095");
});

describe("chat completions", () => {
  test("F18. a broken history is sent on, a broken call is dropped and counted (https://github.com/vllm-project/vllm/issues/55495)", () => {
    const { messages } = chatBody({
      conversation: {
        model: "m",
        system: "",
        tools: [],
        messages: [
          {
            role: "assistant",
            text: "",
            toolCalls: [{ id: "a", name: "Bash", arguments: '{"cmd": "timeout 7' }],
          },
        ],
      },
      stopSequences: [],
      toolChoice: "auto",
    }) as { messages: [{ tool_calls: [{ function: { arguments: string } }] }] };
    expect(messages[0].tool_calls[0].function.arguments).toBe('"{\\"cmd\\": \\"timeout 7"');
    const reply = (text: string) => ({
      choices: [
        {
          finish_reason: "tool_calls",
          stop_reason: "END",
          message: { content: null, tool_calls: [{ function: { name: "Bash", arguments: text } }] },
        },
      ],
    });
    expect(chatAnswer(reply('{"command": "ls'), ["END"])).toMatchObject({
      turn: { text: "", toolCalls: [], malformedToolCalls: 1 },
      stopSequence: "END",
    });
    expect(chatAnswer(reply(""), [])).toMatchObject({
      turn: { toolCalls: [{ name: "Bash", arguments: {} }] },
      stopSequence: null,
    });
  });
});

test("F19. tool calls that nobody parses are noticed, once in the log and always in the count", () => {
  const said: string[] = [];
  const health = new TurnHealth({
    warn: (_, message) => said.push(message),
    error: () => undefined,
  });
  const turn = { reasoning: "", text: "<tool_call>{}", toolCalls: [] };
  health.see(turn, false);
  health.see({ ...turn, text: "plain" }, true);
  health.see({ ...turn, toolCalls: [{ name: "a", arguments: {} }] }, true);
  expect(health.unparsedToolCalls).toBe(0);
  health.see(turn, true);
  health.see({ ...turn, text: "x", malformedToolCalls: 1 }, true);
  expect(health.unparsedToolCalls).toBe(2);
  expect(said).toEqual([expect.stringContaining("--tool-call-parser")]);
});
